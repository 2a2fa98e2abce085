package nodestate

import (
	"fmt"
	"strings"
	"testing"
)

// TestUnknownUnit checks that a gauge with a unit that has no conversion causes a panic, because a
// factor of 0 would count as a value.
func TestUnknownUnit(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, `no row for "furlongs"`) {
			t.Errorf("panic is %s", got)
		}
	}()
	t.Errorf("the factor of an unknown unit is %v", factor("furlongs"))
}
