package ledger_test

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func TestPlausibility(t *testing.T) {
	type reading struct {
		seconds float64
		mJ      gpu.Millijoules
	}
	tests := []struct {
		name             string
		readings         []reading
		energy           gpu.Millijoules
		resets, rejected uint64
	}{
		{"steady", []reading{{0, 5000}, {1, 305_000}, {2, 605_000}}, 600_000, 0, 0},
		{"glitch low", []reading{{0, 5_000_000}, {1, 2_500_000}, {2, 5_600_000}}, 600_000, 0, 1},
		{"glitch high", []reading{{0, 5000}, {1, 1e12}, {2, 605_000}}, 600_000, 0, 1},
		{"two glitches in a row", []reading{{0, 5_000_000}, {1, 1e12}, {2, 1000}, {3, 5_900_000}}, 900_000, 0, 2},
		{"driver reload", []reading{{0, 5_000_000}, {1, 40_000}, {2, 340_000}, {3, 640_000}}, 600_000, 1, 0},
		{"reload, not confirmed yet", []reading{{0, 5_000_000}, {1, 40_000}}, 0, 0, 0},
		{"permanent jump", []reading{{0, 5000}, {1, 1e12}, {2, 1e12 + 300_000}}, 300_000, 1, 0},
		{"full power, and the counter one step ahead", []reading{{0, 5000}, {1, 5000 + 1_155_000}}, 1_155_000, 0, 0},
		{"full power, and the counter more than one step ahead", []reading{{0, 5000}, {1, 5000 + 1_155_001}}, 0, 0, 0},
		{"no change", []reading{{0, 5000}, {1, 5000}, {2, 5000}}, 0, 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var obs []ledger.Observation
			for _, r := range tt.readings {
				o := look(r.seconds, nil)
				o.Energy = &r.mJ
				obs = append(obs, o)
			}
			b := ask(t, newLedger(), obs...)
			if b.Energy != tt.energy || b.Resets != tt.resets || b.Rejected != tt.rejected {
				t.Errorf("got %d mJ, %d resets, %d rejected; want %d, %d, %d",
					b.Energy, b.Resets, b.Rejected, tt.energy, tt.resets, tt.rejected)
			}
		})
	}
}

// A slow call may return the value that the counter had at the start of the call. The next reading then also contains
// the energy of the call, so a larger rise must be plausible.
func TestSlowReading(t *testing.T) {
	for took, want := range map[time.Duration]gpu.Millijoules{0: 0, 2 * time.Second: 1_540_000} {
		slow, next, after := look(10, nil), look(10.1, nil), look(10.2, nil)
		slow.Took, slow.Energy = took, new(gpu.Millijoules(0))
		next.Energy, after.Energy = new(gpu.Millijoules(1_470_000)), new(gpu.Millijoules(1_540_000)) // counter at 700 W
		b := ask(t, newLedger(), slow, next, after)
		if took == 0 && b.Resets != 1 || took > 0 && (b.Energy != want || b.Resets+b.Rejected != 0) {
			t.Errorf("call of %v: %d mJ, %d resets, %d rejected", took, b.Energy, b.Resets, b.Rejected)
		}
	}
}

// A counter does not change for some time, and then catches up. However long this takes, the ledger must accept the
// next reading. It must charge the energy to the owner that used the GPU in this time.
func TestHeldCounter(t *testing.T) {
	const power = 700_000 // in mW
	p := []*gpu.Process{process(21, in(train))}
	for _, held := range []int{1, 5, 7, 8, 9, 15, 30, 40, 60, 300, 1000} {
		var obs []ledger.Observation
		for s := range held + 1 {
			obs = append(obs, count(look(float64(s), p, holds(train, 1)), 0))
		}
		caughtUp := gpu.Millijoules(power * (held + 1))
		obs = append(obs, count(look(float64(held+1), p, holds(train, 1)), caughtUp), count(look(float64(held+2), p, holds(train, 1)), caughtUp+power))
		b := ask(t, newLedger(), obs...)
		if b.Energy != caughtUp+power || b.Resets+b.Rejected != 0 {
			t.Errorf("held for %d s: %d mJ, want %d; %d resets, %d rejected, want 0", held, b.Energy, caughtUp+power, b.Resets, b.Rejected)
		}
		if a := b.Accounts[0]; a.Energy[gpu.Exclusive] != b.Energy || a.Allocated != time.Duration(held+2)*time.Second {
			t.Errorf("held for %d s: the owner has %d mJ and held the GPU for %v, want %d mJ and %d s", held, a.Energy[gpu.Exclusive], a.Allocated, b.Energy, held+2)
		}
	}
}

// The counter is refreshed every 20 or 60 s. In some cases the exporter restarts. No energy must be lost.
func TestRareRefresh(t *testing.T) {
	cfg := ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}
	for _, every := range []int{20, 60} {
		for _, restart := range []int{0, 7, 33} {
			l := ledger.New(cfg)
			for s := range 601 {
				o := count(look(float64(s), nil), gpu.Millijoules(s/every*every*300_000))
				l.Observe(o)
				l.Settle(o.At, unresolved)
				if restart > 0 && s%restart == restart-1 {
					l = ledger.Restore(cfg, l.State())
				}
			}
			if b := bookOf(l, uuid); b.Energy != 600*300_000 || b.Resets+b.Rejected != 0 {
				t.Errorf("refreshed every %d s, restarted every %d s: %d mJ, %d resets, %d rejected; want 180000000, 0, 0", every, restart, b.Energy, b.Resets, b.Rejected)
			}
		}
	}
}

// After a counter has not changed for some time, the ledger must detect a reset in two cases: the counter decreases, or
// it increases by more energy than the board can have drawn since the last change.
func TestResetWhileStanding(t *testing.T) {
	for name, value := range map[string]gpu.Millijoules{"lower": 1000, "too high": 5_000_000 + 41*1_155_000} {
		var obs []ledger.Observation
		for s := range 41 {
			obs = append(obs, count(look(float64(s), nil), 5_000_000))
		}
		b := ask(t, newLedger(), append(obs, count(look(41, nil), value), count(look(42, nil), value+300_000))...)
		if b.Resets != 1 || b.Energy != 300_000 {
			t.Errorf("%s: %d mJ, %d resets; want 300000, 1", name, b.Energy, b.Resets)
		}
	}
}

// The counter does not change for 40 s. One owner works for the first 10 s, and another owner works for the last 30 s.
// The energy must be divided by the work in the whole time.
func TestStandingOfTwo(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	var obs []ledger.Observation
	for s := range 41 {
		o := count(look(float64(s), []*gpu.Process{p, q}, holds(train, 1), holds(serve, 1)), gpu.Millijoules(s/40*40*400_000))
		if worker := p; s > 0 {
			if s > 10 {
				worker = q
			}
			o.Activity = []ledger.Activity{{Process: worker, Span: o.Sampled, Busy: o.Sampled.Len()}}
		}
		obs = append(obs, o)
	}
	b := ask(t, newLedger(), obs...)
	got := make(map[string]float64)
	for _, a := range b.Accounts {
		got[a.Name] = float64(a.Energy.Sum()) / 1000
	}
	if b.Energy != 16_000_000 || math.Abs(got[train.Name]-4000) > 40 || math.Abs(got[serve.Name]-12000) > 40 {
		t.Errorf("%d mJ, accounts %v; want 16000000, 4000 J and 12000 J", b.Energy, got)
	}
}

// If a counter rises after a pause, the owners that worked during the pause must pay, not the owners at the end. The
// energy must not count as idle, even if the last owner is idle.
func TestHeldCounterOfTwo(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	var obs []ledger.Observation
	for s := range 6 {
		o := count(look(float64(s), []*gpu.Process{p}, holds(train, 1)), 0)
		o.Activity = []ledger.Activity{{Process: p, Span: o.Sampled, Busy: 900 * time.Millisecond}}
		obs = append(obs, o)
	}
	rests := count(look(6, []*gpu.Process{q}, holds(serve, 1)), 0)
	caughtUp := count(look(7, []*gpu.Process{q}, holds(serve, 1)), 4_900_000)
	caughtUp.Utilization = new(0.0)
	b := ask(t, newLedger(), append(obs, rests, caughtUp)...)
	for _, a := range b.Accounts {
		if a.Energy[gpu.Exclusive] != 0 || a.Idle != 0 {
			t.Errorf("account of %s: %+v, want no exclusive and no idle energy", a.Name, a)
		}
	}
	if b.Energy != 4_900_000 {
		t.Errorf("energy %d mJ, want 4900000", b.Energy)
	}
}

// The exporter restarts while the counter does not change. The next rise must not count as a reset.
func TestHeldOverRestart(t *testing.T) {
	cfg := ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}
	l := ledger.New(cfg)
	see := func(s float64, mJ gpu.Millijoules) {
		o := count(look(s, nil), mJ)
		l.Observe(o)
		l.Settle(o.At, unresolved)
	}
	for s := range 6 {
		see(float64(s), 0)
	}
	l = ledger.Restore(cfg, l.State())
	see(6, 4_200_000)
	see(7, 4_900_000)
	if b := bookOf(l, uuid); b.Energy != 4_900_000 || b.Resets+b.Rejected != 0 {
		t.Errorf("%d mJ, %d resets, %d rejected; want 4900000, 0, 0", b.Energy, b.Resets, b.Rejected)
	}
}

// The ledger must never compare the values of two different counters, even after a restart. A counter without a name
// matches every counter.
func TestAnotherCounter(t *testing.T) {
	tests := map[string]struct {
		before, after string
		energy        gpu.Millijoules
		resets        uint64
	}{
		"the same":                   {"board", "board", 900_000, 0},
		"another":                    {"power", "board", 300_000, 1},
		"the first has no name":      {"", "board", 900_000, 0},
		"the second has no name":     {"gpu", "", 900_000, 0},
		"a counter of less hardware": {"gpu", "board", 300_000, 1},
		"both have no name":          {"", "", 900_000, 0},
	}
	cfg := ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}
	for name, tt := range tests {
		for _, restart := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, restart %v", name, restart), func(t *testing.T) {
				l := ledger.New(cfg)
				see := func(s float64, counter string, mJ gpu.Millijoules) {
					o := count(look(s, nil), mJ)
					o.Counter = counter
					l.Observe(o)
					l.Settle(o.At, unresolved)
				}
				see(0, tt.before, 5000)
				if restart {
					l = ledger.Restore(cfg, l.State())
				}
				see(1, tt.after, 605_000)
				see(2, tt.after, 905_000)
				if b := bookOf(l, uuid); b.Energy != tt.energy || b.Resets != tt.resets || b.Rejected != 0 {
					t.Errorf("got %d mJ, %d resets, %d rejected; want %d, %d, 0", b.Energy, b.Resets, b.Rejected, tt.energy, tt.resets)
				}
			})
		}
	}
}

// The ledger must detect an implausible reading even if the machine was suspended for a day during the call.
func TestReadingOverSleep(t *testing.T) {
	slow, next, after := look(10, nil), look(11, nil), look(12, nil)
	slow.Took, slow.Energy = 24*time.Hour, new(gpu.Millijoules(0))
	next.Energy, after.Energy = new(gpu.Millijoules(40_000_000_000)), new(gpu.Millijoules(40_000_300_000))
	if b := ask(t, newLedger(), slow, next, after); b.Resets != 1 || b.Energy != 300_000 {
		t.Errorf("%d mJ, %d resets; want 300000, 1", b.Energy, b.Resets)
	}
}

// A board with an unknown maximum power may draw 10 kW.
func TestUnknownMaxPower(t *testing.T) {
	for reading, want := range map[gpu.Millijoules]gpu.Millijoules{16_500_000: 16_500_000, 16_500_001: 0} {
		first, second := look(0, nil), look(1, nil)
		first.MaxPower, first.Energy = 0, new(gpu.Millijoules(0))
		second.MaxPower, second.Energy = 0, &reading
		if got := ask(t, newLedger(), first, second).Energy; got != want {
			t.Errorf("%d mJ counted in a second: energy %d mJ, want %d", reading, got, want)
		}
	}
}

func TestReload(t *testing.T) {
	p := process(21, in(train))
	low := look(1, nil)
	low.Energy = new(gpu.Millijoules(1000))
	confirm := look(2, nil)
	confirm.Energy = new(gpu.Millijoules(301_000))
	b := ask(t, newLedger(), look(0, []*gpu.Process{p}, holds(train, 1)), low, confirm)
	if b.Energy != 300_000 || b.Unattributed[gpu.Idle] != 300_000 || b.Resets != 1 {
		t.Errorf("book: %+v, want 300000 mJ idle and 1 reset", b)
	}
}

func TestCounterFaults(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	own := func(s float64, mJ gpu.Millijoules) ledger.Observation {
		return count(look(s, []*gpu.Process{p}, holds(train, 1)), mJ)
	}
	nobody := func(s float64, mJ gpu.Millijoules) ledger.Observation { return count(look(s, nil), mJ) }
	play(t, []story{
		{
			"glitch low",
			[]ledger.Observation{own(0, 5_000_000), own(1, 2_500_000), own(2, 5_600_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "rejected": 1},
		},
		{
			"glitch to zero",
			[]ledger.Observation{own(0, 5_000_000), own(1, 0), own(2, 5_600_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "rejected": 1},
		},
		{
			"glitch high",
			[]ledger.Observation{own(0, 5_000_000), own(1, 1_000_005_300_000), own(2, 5_600_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "rejected": 1},
		},
		{
			"a glitch just as the owner leaves",
			[]ledger.Observation{own(0, 5_000_000), nobody(1, 2_500_000), nobody(2, 5_600_000), nobody(3, 5_900_000)},
			amounts{"energy": 900_000, "train exclusive": 600_000, "idle": 300_000, "rejected": 1},
		},
		{
			"a glitch just before another owner starts",
			[]ledger.Observation{own(0, 5_000_000), own(1, 2_500_000), count(look(2, []*gpu.Process{p, q}), 5_600_000)},
			amounts{"energy": 600_000, "train allocated": 300_000, "serve allocated": 300_000, "rejected": 1},
		},
		{
			"driver reload",
			[]ledger.Observation{own(0, 5_000_000), own(1, 5_300_000), own(2, 40_000), own(3, 340_000), own(4, 640_000)},
			amounts{"energy": 900_000, "train exclusive": 900_000, "resets": 1},
		},
		{
			"driver reload, all processes gone",
			[]ledger.Observation{own(0, 5_000_000), own(1, 5_300_000), nobody(2, 0), nobody(3, 75_000), nobody(4, 150_000)},
			amounts{"energy": 450_000, "train exclusive": 300_000, "idle": 150_000, "resets": 1},
		},
		{
			"driver reload that takes a minute",
			[]ledger.Observation{own(0, 5_000_000), own(60, 40_000), own(61, 340_000), own(62, 640_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "resets": 1},
		},
		{
			"two reloads",
			[]ledger.Observation{own(0, 5_000_000), own(1, 40_000), own(2, 340_000), own(3, 10_000), own(4, 310_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "resets": 2},
		},
		{
			"a glitch right after a reload", // the glitch delays the confirmation
			[]ledger.Observation{own(0, 5_000_000), own(1, 40_000), own(2, 1_000_000_000_000), own(3, 640_000), own(4, 940_000)},
			amounts{"energy": 300_000, "train exclusive": 300_000, "resets": 1, "rejected": 2},
		},
		{
			"the counter cannot be read for a while",
			[]ledger.Observation{own(0, 5_000_000), unread(own(1, 0)), unread(own(2, 0)), own(3, 5_900_000)},
			amounts{"energy": 900_000, "train exclusive": 900_000},
		},
	})
}

// A share of 0 or 1 means all energy. The ledger adds fractions of a millijoule to the next interval.
func TestModuleShare(t *testing.T) {
	for share, want := range map[float64]gpu.Millijoules{0: 70, 1: 70, 0.25: 17, 1 / 3.0: 23} {
		var obs []ledger.Observation
		for i := range 11 {
			o := count(look(float64(i), nil), gpu.Millijoules(7*i))
			o.ModuleShare = share
			obs = append(obs, o)
		}
		if b := ask(t, newLedger(), obs...); b.Energy != want {
			t.Errorf("share %.2f of 70 mJ: %d mJ, want %d", share, b.Energy, want)
		}
	}
}
