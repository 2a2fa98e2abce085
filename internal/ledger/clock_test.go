package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// Setting the wall clock must not change energy and times, because they depend only on the boot clock. A suspended
// machine or a late observation must cause a gap.
func TestClocks(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	own := func(s float64) ledger.Observation { return look(s, []*gpu.Process{p}, holds(train, 1)) }
	play(t, []story{
		{
			"the wall clock is set forward",
			[]ledger.Observation{own(0), stepped(own(1), 24*time.Hour), stepped(own(2), 24*time.Hour)},
			amounts{"energy": 600_000, "train exclusive": 600_000},
		},
		{
			"the wall clock is set back twice",
			[]ledger.Observation{own(0), own(1), stepped(own(2), -time.Hour), stepped(own(3), -24*time.Hour), own(4)},
			amounts{"energy": 1_200_000, "train exclusive": 1_200_000},
		},
		{
			"suspended for an hour, and nothing changed",
			[]ledger.Observation{own(0), own(1), count(own(3601), 1_330_000), count(own(3602), 1_630_000)},
			amounts{"energy": 630_000, "train exclusive": 630_000},
		},
		{
			"suspended for an hour, and a process started",
			[]ledger.Observation{own(0), own(1), count(look(3601, both), 1_330_000), count(look(3602, both), 1_630_000)},
			amounts{"energy": 630_000, "train exclusive": 300_000, "gap": 30_000, "train allocated": 150_000, "serve allocated": 150_000},
		},
		{
			"suspended without a process",
			[]ledger.Observation{look(0, nil), look(1, nil), count(look(3601, nil), 1_330_000)},
			amounts{"energy": 330_000, "idle": 300_000, "gap": 30_000},
		},
		{
			"30 s late, and nothing changed",
			[]ledger.Observation{own(0), own(1), own(31), own(32)},
			amounts{"energy": 9_600_000, "train exclusive": 9_600_000},
		},
		{
			"30 s late with a GPU that is shared",
			[]ledger.Observation{look(0, both), look(1, both), look(31, both), look(32, both)},
			amounts{"energy": 9_600_000, "train allocated": 300_000, "serve allocated": 300_000, "gap": 9_000_000},
		},
		{
			"the longest delay that is no gap",
			[]ledger.Observation{look(0, both), look(10, both)},
			amounts{"energy": 3_000_000, "train allocated": 1_500_000, "serve allocated": 1_500_000},
		},
		{
			"the shortest delay that is a gap",
			[]ledger.Observation{look(0, both), look(10.001, both)},
			amounts{"energy": 3_000_300, "gap": 3_000_300},
		},
		{
			"an observation that is not newer",
			[]ledger.Observation{own(0), own(1), count(own(1), 9_999_999), count(own(0.5), 9_999_999), own(2)},
			amounts{"energy": 600_000, "train exclusive": 600_000},
		},
	})
}

// Setting the wall clock must not change held seconds, active seconds or the opening times of accounts.
func TestClockStepSeconds(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		p := process(21, in(train))
		own := func(s float64) ledger.Observation { return look(s, []*gpu.Process{p}, holds(train, 1)) }
		b := ask(t, newLedger(), own(0), own(1), stepped(own(2), by), stepped(own(3), by))
		a := b.Accounts[0]
		if a.Allocated != 3*time.Second || a.Active != 3*time.Second || !a.Opened.Equal(at(0).Wall) || !b.Opened.Equal(at(0).Wall) {
			t.Errorf("clock set by %v: held %v, active %v, want 3s; account opened %v, book %v, want the start", by, a.Allocated, a.Active, a.Opened, b.Opened)
		}
	}
}

func TestSlowTick(t *testing.T) {
	both := []*gpu.Process{process(21, in(train)), process(31, in(serve))}
	for seconds, want := range map[float64]amounts{
		50: {"energy": 15_000_000, "train allocated": 7_500_000, "serve allocated": 7_500_000},
		51: {"energy": 15_300_000, "gap": 15_300_000},
	} {
		l := ledger.New(ledger.Config{Tick: 10 * time.Second, Retention: 5 * time.Minute})
		if diff := cmp.Diff(want, amountsOf(ask(t, l, look(0, both), look(seconds, both)))); diff != "" {
			t.Errorf("amounts after %v s (-want +got):\n%s", seconds, diff)
		}
	}
}

// An interval must wait for samples for up to ten seconds. Then it must be divided by the activity that was reported in
// this time.
func TestSamplesAfterClockSetBack(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	l := newLedger()
	ask(t, l, look(0, both), sampled(look(1, both), time.Second, worked(p, 300), worked(q, 100)))
	until := at(1).Boot - 200*time.Millisecond
	for s := 2.0; s < 11; s++ {
		o := look(s, both)
		o.Sampled = gpu.Span{From: until, To: until}
		if b := ask(t, l, o); b.Energy > 0 {
			t.Fatalf("settled without samples at %v s: %+v", s, b)
		}
	}
	o := sampled(look(11, both), 0, worked(p, 7500), worked(q, 2500))
	for i := range o.Activity {
		o.Activity[i].From = until
	}
	b := ask(t, l, o)
	want := []gpu.ByMethod{{gpu.Shared: 10 * 300_000 * 3 / 4}, {gpu.Shared: 10 * 300_000 / 4}}
	if diff := cmp.Diff(want, energies(b)); diff != "" {
		t.Errorf("charged (-want +got):\n%s", diff)
	}
}
