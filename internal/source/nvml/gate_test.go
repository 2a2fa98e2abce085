package nvml

import (
	"context"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// TestGate closes a gate immediately before a call. This test and TestRetiredSet are in package nvml, because a test
// outside the package cannot produce this order of events.
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
	want("the gate is open for another session", second, false)
	if g.drain(over) {
		t.Error("the gate was drained during a call")
	}
	want("shut", first, false)
	g.leave()
	if !g.drain(over) {
		t.Error("the gate was not drained although there is no call")
	}
	g.admit(second)
	want("opened again", first, false)
	want("opened again", second, true)
}

func TestRetiredSet(t *testing.T) {
	var set eventSet
	set.mu.RLock()
	if set.retire() {
		t.Error("the set was retired while a GPU was being registered")
	}
	set.mu.RUnlock()
	if !set.retire() {
		t.Error("not retired")
	}
	if _, r := set.register(nil); r == gonvml.SUCCESS {
		t.Error("a GPU was registered with a retired set")
	}
}
