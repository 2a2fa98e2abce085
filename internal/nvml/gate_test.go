package nvml

import (
	"context"
	"testing"
)

// TestGate is inside the package: a call of a session that is closed right before
// it begins cannot be arranged from outside.
func TestGate(t *testing.T) {
	var g gate
	first, second := new(session), new(session)
	want := func(when string, d *session, admitted bool) {
		t.Helper()
		if got := g.enter(d); got != admitted {
			t.Errorf("%s: a call is admitted: %v", when, got)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()

	want("never opened", nil, false)
	want("never opened", first, false)
	g.admit(first)
	want("open", first, true)
	want("open for another session", second, false)
	if g.drain(over) {
		t.Error("drained under a call")
	}
	want("shut", first, false)
	g.leave()
	if !g.drain(over) {
		t.Error("not drained without a call")
	}
	g.admit(second)
	want("opened anew", first, false)
	want("opened anew", second, true)
}
