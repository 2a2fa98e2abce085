package nvml

import (
	"context"
	"testing"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
)

// TestGate checks a gate that closes right before a call. Like the next test it is inside the
// package, because this order of events cannot be produced from outside.
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
	want("opened again", first, false)
	want("opened again", second, true)
}

// TestRetiredSet checks that a retired set accepts no GPU, and that a set is not retired while it
// accepts a GPU.
func TestRetiredSet(t *testing.T) {
	var set eventSet
	set.mu.RLock()
	if set.retire() {
		t.Error("retired while a GPU is being registered")
	}
	set.mu.RUnlock()
	if !set.retire() {
		t.Error("not retired")
	}
	if _, r := set.register(nil); r == gonvml.SUCCESS {
		t.Error("a GPU was registered with a retired set")
	}
}
