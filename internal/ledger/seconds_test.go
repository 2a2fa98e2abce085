package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

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
			"held, worked, then idle for two seconds; work may have ended in the first",
			[]ledger.Observation{
				look(0, nil, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1)),
				resting(look(2, []*gpu.Process{p}, holds(train, 1))), resting(look(3, []*gpu.Process{p}, holds(train, 1))),
			},
			3 * time.Second, time.Second, 300_000,
		},
		{
			"utilisation unknown, and no samples",
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

func resting(o ledger.Observation) ledger.Observation {
	o.Utilization = new(0.0)
	return o
}

// The utilisation and activity in an observation without a correct reading must count for the interval that ends with
// the next correct reading.
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
		want         gpu.ByMethod // energy of the first of two containers
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

// The times of short-lived pods must be exact in each second, even if the counter is rarely refreshed or rarely read.
func TestTimeOfRareReadings(t *testing.T) {
	for _, every := range []int{1, 2, 7, 20} {
		for name, read := range map[string]func(s int) *gpu.Millijoules{
			"refreshed": func(s int) *gpu.Millijoules { return new(gpu.Millijoules(s / every * every * 300_000)) },
			"read": func(s int) *gpu.Millijoules {
				if s%every > 0 {
					return nil
				}
				return new(gpu.Millijoules(s * 300_000))
			},
		} {
			t.Run(fmt.Sprint(name, " every ", every, " s"), func(t *testing.T) {
				p, q := process(21, in(train)), process(31, in(serve))
				l := newLedger()
				for s := range 101 {
					o := look(float64(s), nil)
					o.Energy, o.Utilization = read(s), nil
					if s <= 33 { // train holds a replica and works in every third second
						o.Processes, o.Allocations = append(o.Processes, p), append(o.Allocations, holds(train, 1))
						if s > 0 && s%3 == 0 {
							o.Activity = append(o.Activity, ledger.Activity{Process: p, Span: o.Sampled, Busy: 100 * time.Millisecond})
						}
					}
					if s > 5 { // serve holds a replica
						o.Processes, o.Allocations = append(o.Processes, q), append(o.Allocations, holds(serve, 1))
					}
					l.Observe(o)
					l.Settle(o.At, unresolved)
				}
				b := bookOf(l, uuid)
				got := make(map[string][3]time.Duration)
				for _, a := range b.Accounts {
					got[a.Name] = [3]time.Duration{a.Allocated, a.GPUTime, a.Active}
				}
				want := map[string][3]time.Duration{
					train.Name: {33 * time.Second, 19 * time.Second, 11 * time.Second},
					serve.Name: {95 * time.Second, 81 * time.Second, 0},
				}
				if diff := cmp.Diff(want, got); diff != "" || b.Energy != gpu.Millijoules(100/every*every*300_000) {
					t.Errorf("%d mJ; held, GPU and active time (-want +got):\n%s", b.Energy, diff)
				}
			})
		}
	}
}
