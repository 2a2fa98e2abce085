package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A container is charged for the energy of a gap only if its pod was alone on the GPU and if the processes and
// allocations did not change. The time of the gap counts only for containers that held the GPU at both ends.
func TestGap(t *testing.T) {
	p, mate, hog := process(21, in(train)), process(24, in(train)), process(31, in(serve))
	again := new(*p)
	again.ID.Start++
	sidecar := train
	sidecar.Part = "sidecar"
	worker := process(22, in(sidecar))
	moved := holds(gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid-new", Part: "main"}, 1)
	own := look(0, []*gpu.Process{p}, holds(train, 1))
	tests := []struct {
		name          string
		before, after ledger.Observation
		charged       gpu.Millijoules
		held          time.Duration // sum over all containers
	}{
		{"same process, same allocation", own, look(60, []*gpu.Process{p}, holds(train, 1)), 60 * 300_000, time.Minute},
		{"process in the pod's other container", look(0, []*gpu.Process{worker}, holds(train, 1)), look(60, []*gpu.Process{worker}, holds(train, 1)), 60 * 300_000, time.Minute},
		{"process of another pod", look(0, []*gpu.Process{hog}, holds(train, 1)), look(60, []*gpu.Process{hog}, holds(train, 1)), 0, time.Minute},
		{"PID reused", own, look(60, []*gpu.Process{again}, holds(train, 1)), 0, time.Minute},
		{"another process joined", own, look(60, []*gpu.Process{p, worker}, holds(train, 1)), 0, time.Minute},
		{"beside a process of another pod", look(0, []*gpu.Process{p, hog}, holds(train, 1)), look(60, []*gpu.Process{p, hog}, holds(train, 1)), 0, time.Minute},
		{"two processes, listed in another order", look(0, []*gpu.Process{p, mate}, holds(train, 1)), look(60, []*gpu.Process{mate, p}, holds(train, 1)), 60 * 300_000, time.Minute},
		{"no process at both ends, but samples of one", look(0, nil, holds(train, 1)), saw(look(60, nil, holds(train, 1)), p), 0, time.Minute},
		{"held by another pod before the gap", look(0, []*gpu.Process{p}, holds(serve, 1)), look(60, []*gpu.Process{p}, holds(train, 1)), 0, 0},
		{"process gone", own, look(60, nil, holds(train, 1)), 0, time.Minute},
		{"allocation gone", own, look(60, []*gpu.Process{p}), 0, 0},
		{"allocation came", look(0, []*gpu.Process{p}), look(60, []*gpu.Process{p}, holds(train, 1)), 0, 0},
		{"another pod with the same name", own, look(60, []*gpu.Process{p}, moved), 0, 0},
		{"shared now", own, look(60, []*gpu.Process{p}, holds(train, 1), holds(serve, 1)), 0, time.Minute},
		{"a replica", look(0, []*gpu.Process{p}, holds(train, 2)), look(60, []*gpu.Process{p}, holds(train, 2)), 0, time.Minute},
		{"a replica before", look(0, []*gpu.Process{p}, holds(train, 2)), look(60, []*gpu.Process{p}, holds(train, 1)), 0, time.Minute},
		{"a replica now", own, look(60, []*gpu.Process{p}, holds(train, 2)), 0, time.Minute},
	}
	for _, restart := range []bool{true, false} {
		for _, tt := range tests {
			t.Run(tt.name+map[bool]string{true: ", restart", false: ", late tick"}[restart], func(t *testing.T) {
				l := newLedger()
				l.Observe(tt.before)
				if restart {
					l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
				}
				b := ask(t, l, tt.after)
				if b.Energy != 60*300_000 {
					t.Errorf("energy of the book: %d mJ, want 18000000", b.Energy)
				}
				var held time.Duration
				for _, a := range b.Accounts {
					held += a.Allocated
				}
				if got := b.Sum() - b.Unattributed[gpu.Gap]; got != tt.charged || held != tt.held {
					t.Errorf("charged %d mJ, held for %v; want %d mJ, %v", got, held, tt.charged, tt.held)
				}
			})
		}
	}
}

func TestOneGap(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	l := newLedger()
	ask(t, l, look(0, both))
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	b := ask(t, l, look(1, both), saw(look(2, both), p))
	want := amounts{"energy": 600_000, "gap": 300_000, "train exclusive": 300_000}
	if diff := cmp.Diff(want, amountsOf(b)); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// After a restart, the kubelet reports allocations only after the first observation. The first list must still apply to
// the end of the gap.
func TestGapBeforeKubelet(t *testing.T) {
	p := []*gpu.Process{process(21, in(train))}
	l := newLedger()
	ask(t, l, look(0, p, holds(train, 1)))
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	early := look(60, p)
	early.AllocationsKnown = false
	b := ask(t, l, early, look(61, p, holds(train, 1)))
	want := amounts{"energy": 61 * 300_000, "train exclusive": 61 * 300_000}
	if diff := cmp.Diff(want, amountsOf(b)); diff != "" || b.Accounts[0].Allocated != 61*time.Second {
		t.Errorf("held for %v, want 61s; amounts (-want +got):\n%s", b.Accounts[0].Allocated, diff)
	}
}

// In a gap the ledger uses only the observations at both ends. Therefore its memory must not grow while the counter
// cannot be read or readings are rejected.
func TestInsideGap(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	for name, readings := range map[string][2]*gpu.Millijoules{
		"no reading": {nil, nil},
		"glitches":   {new(gpu.Millijoules(2e12)), new(gpu.Millijoules(1e12))},
	} {
		t.Run(name, func(t *testing.T) {
			with, without := look(5, []*gpu.Process{p, q}, holds(train, 1)), look(20, []*gpu.Process{p}, holds(train, 1))
			with.Energy, without.Energy = readings[0], readings[1]
			own := look(0, []*gpu.Process{p}, holds(train, 1))
			b := ask(t, newLedger(), own, with, without, look(21, []*gpu.Process{p}, holds(train, 1)))
			if got := b.Accounts[0].Energy[gpu.Exclusive]; got != 21*300_000 {
				t.Errorf("the container was charged %d mJ, want %d: %+v", got, 21*300_000, b)
			}
		})
	}
}

func TestGapHasNoActivity(t *testing.T) {
	p := process(21, in(train))
	for _, utilization := range []float64{0, 1} {
		after := look(3600, []*gpu.Process{p}, holds(train, 1))
		after.Utilization = &utilization
		a := ask(t, newLedger(), look(0, []*gpu.Process{p}, holds(train, 1)), after).Accounts[0]
		if a.Energy[gpu.Exclusive] != 3600*300_000 || a.Idle != 0 || a.Active != 0 || a.Allocated != time.Hour {
			t.Errorf("account at utilisation %v: %+v, want exclusive energy and an hour held, nothing idle or active", utilization, a)
		}
	}
}

func TestReturn(t *testing.T) {
	l := newLedger()
	ask(t, l, look(0, nil), look(1, nil))
	b := ask(t, l, look(400, nil))
	if b.Energy != 400*300_000 || b.Unattributed[gpu.Gap] != 399*300_000 {
		t.Errorf("book after the return: %+v, want 120000000 mJ, of which 119700000 mJ as gap", b)
	}
}
