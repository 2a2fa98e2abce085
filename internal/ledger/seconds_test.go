package ledger_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// TestSeconds checks how long the first container held and used the GPU, and its idle energy.
func TestSeconds(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	looks := func(edit func(*ledger.Observation), looks ...ledger.Observation) []ledger.Observation {
		edit(&looks[len(looks)-1])
		return looks
	}
	tests := []struct {
		name              string
		looks             []ledger.Observation
		allocated, active time.Duration
		idle              gpu.Millijoules
	}{
		{
			"held, worked, then idle for two seconds, of which the first may have seen work end",
			[]ledger.Observation{
				look(0, nil, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1)),
				resting(look(2, []*gpu.Process{p}, holds(train, 1))), resting(look(3, []*gpu.Process{p}, holds(train, 1))),
			},
			3 * time.Second, time.Second, 300_000,
		},
		{
			"utilisation not known, but no samples",
			looks(func(o *ledger.Observation) { o.Utilization = nil },
				look(0, []*gpu.Process{p}, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1))),
			time.Second, 0, 300_000,
		},
		{
			"neither known",
			looks(func(o *ledger.Observation) { o.Utilization, o.ActivityKnown = nil, false },
				look(0, []*gpu.Process{p}, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1))),
			time.Second, 0, 0,
		},
		{
			"idle beside a busy one",
			looks(func(o *ledger.Observation) { o.Activity = []ledger.Activity{worked(q, 1)} },
				look(0, []*gpu.Process{p, q}, holds(train, 2)), look(1, []*gpu.Process{p, q}, holds(train, 2))),
			time.Second, 0, 0,
		},
		{
			"two of the GPU's devices",
			looks(func(*ledger.Observation) {},
				look(0, nil, holds(train, 1), holds(train, 1)), look(1, nil, holds(train, 1), holds(train, 1))),
			time.Second, 0, 0,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := ask(t, newLedger(), tt.looks...).Accounts[0]
			if a.Allocated != tt.allocated || a.Active != tt.active || a.Idle != tt.idle {
				t.Errorf("allocated %v, active %v, idle %d mJ; want %v, %v, %d", a.Allocated, a.Active, a.Idle, tt.allocated, tt.active, tt.idle)
			}
		})
	}
}

// resting changes an observation to that of an idle GPU.
func resting(o ledger.Observation) ledger.Observation {
	o.Utilization = new(0.0)
	return o
}

// TestBetween checks that an observation whose reading is missing or a glitch counts like that of
// the next reading.
func TestBetween(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	idle := func(o *ledger.Observation) { o.Utilization = new(0.0) }
	busy := func(o *ledger.Observation) { o.Utilization = new(1.0) }
	unmeasured := func(o *ledger.Observation) { o.Utilization = nil }
	active := func(who *gpu.Process, ms time.Duration) func(*ledger.Observation) {
		return func(o *ledger.Observation) { o.Activity = []ledger.Activity{worked(who, ms)} }
	}
	mute := func(o *ledger.Observation) { o.ActivityKnown = false }
	tests := []struct {
		name         string
		between, end func(*ledger.Observation)
		want         gpu.ByMethod // of the first of two containers
		idle         gpu.Millijoules
	}{
		{"idle", idle, idle, gpu.ByMethod{gpu.Allocated: 150_000}, 150_000},
		{"busy, then idle", busy, idle, gpu.ByMethod{gpu.Allocated: 150_000}, 0},
		{"idle, then busy", idle, busy, gpu.ByMethod{gpu.Allocated: 150_000}, 0},
		{"not measured, then idle", unmeasured, idle, gpu.ByMethod{gpu.Allocated: 150_000}, 150_000},
		{"idle, then not measured", idle, unmeasured, gpu.ByMethod{gpu.Allocated: 150_000}, 150_000},
		{"active by turns", active(p, 1), active(q, 3), gpu.ByMethod{gpu.Shared: 75_000}, 0},
		{"no signal, then active", mute, active(p, 1), gpu.ByMethod{gpu.Allocated: 150_000}, 0},
		{"active, then no signal", active(p, 1), mute, gpu.ByMethod{gpu.Allocated: 150_000}, 0},
	}
	for name, reading := range map[string]*gpu.Millijoules{"no reading": nil, "glitch": new(gpu.Millijoules(1e12))} {
		for _, tt := range tests {
			t.Run(tt.name+", "+name, func(t *testing.T) {
				between, end := look(0.5, []*gpu.Process{p, q}), look(1, []*gpu.Process{p, q})
				between.Energy = reading
				tt.between(&between)
				tt.end(&end)
				a := ask(t, newLedger(), look(0, []*gpu.Process{p, q}), between, end).Accounts[0]
				if a.Energy != tt.want || a.Idle != tt.idle {
					t.Errorf("charged %v, idle %d; want %v, %d", a.Energy, a.Idle, tt.want, tt.idle)
				}
			})
		}
	}
}
