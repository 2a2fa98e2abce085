package nodestate

import (
	"fmt"
	"strings"
	"testing"
)

// A gauge whose unit has no conversion must cause a panic. With a factor of 0, the gauge would be 0 in all tests.
func TestUnknownUnit(t *testing.T) {
	defer func() {
		if got := fmt.Sprint(recover()); !strings.Contains(got, `no row for "furlongs"`) {
			t.Errorf("panic is %s", got)
		}
	}()
	t.Errorf("the factor of an unknown unit is %v", factor("furlongs"))
}
