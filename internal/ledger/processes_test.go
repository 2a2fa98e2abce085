package ledger_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func TestComeAndGo(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	later, other := process(21, in(train)), process(21, in(serve))
	later.ID.Start, other.ID.Start = p.ID.Start+5, p.ID.Start+5
	alone, both := []*gpu.Process{p}, []*gpu.Process{p, q}
	taken := []*gpu.Process{other}
	play(t, []story{
		{
			"starts and ends between two observations, with samples",
			[]ledger.Observation{look(0, nil, holds(train, 1)), saw(look(1, nil, holds(train, 1)), q), look(2, nil, holds(train, 1))},
			amounts{"energy": 600_000, "serve shared": 300_000, "train allocated": 300_000},
		},
		{
			"starts and ends between two observations, without samples",
			[]ledger.Observation{look(0, nil, holds(train, 1)), look(1, nil, holds(train, 1))},
			amounts{"energy": 300_000, "train allocated": 300_000},
		},
		{
			"starts and ends between two observations beside another process, with samples",
			[]ledger.Observation{look(0, alone), saw(look(1, alone), q), look(2, alone), look(3, alone)},
			amounts{"energy": 900_000, "serve exclusive": 300_000, "train exclusive": 600_000},
		},
		{
			"starts in an interval",
			[]ledger.Observation{look(0, nil), look(1, alone), look(2, alone)},
			amounts{"energy": 600_000, "train exclusive": 600_000},
		},
		{
			"ends in an interval",
			[]ledger.Observation{look(0, alone), look(1, nil), look(2, nil)},
			amounts{"energy": 600_000, "train exclusive": 300_000, "idle": 300_000},
		},
		{
			"ends in an interval, while another continues",
			[]ledger.Observation{look(0, both), look(1, alone), look(2, alone)},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "train exclusive": 300_000},
		},
		{
			"one ends, another starts",
			[]ledger.Observation{look(0, alone), look(1, []*gpu.Process{q}), look(2, []*gpu.Process{q})},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "serve exclusive": 300_000},
		},
		{
			"a PID is used again in the container",
			[]ledger.Observation{look(0, alone), look(1, alone), look(2, []*gpu.Process{later}), look(3, []*gpu.Process{later})},
			amounts{"energy": 900_000, "train exclusive": 900_000},
		},
		{
			"a PID is used again in another container",
			[]ledger.Observation{look(0, alone), look(1, taken), look(2, taken)},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "serve exclusive": 300_000},
		},
		{
			"a PID is used again, and the new process has samples",
			[]ledger.Observation{look(0, alone), saw(look(1, taken), other), look(2, taken)},
			amounts{"energy": 600_000, "serve exclusive": 600_000},
		},
	})
}

// In the interval in which a PID is reused, both processes pay. The account of the later process must then replace the
// account of the earlier process.
func TestHeldPID(t *testing.T) {
	p := process(21, in(train))
	later := new(*p)
	later.ID.Start += 5
	l := newLedger()
	accounts := func(looks ...ledger.Observation) []gpu.ProcessAccount {
		return ask(t, l, looks...).Accounts[0].Processes
	}
	first := accounts(look(0, []*gpu.Process{p}), look(1, []*gpu.Process{p}))
	if len(first) != 1 || first[0].Energy != (gpu.ByMethod{gpu.Exclusive: 300_000}) {
		t.Errorf("process accounts before the reuse: %+v, want one account with 300000 mJ exclusive", first)
	}
	second := accounts(look(2, []*gpu.Process{later}))
	if len(second) != 1 || second[0].ProcessID != later.ID || !second[0].Opened.Equal(at(1).Wall) ||
		second[0].Energy != (gpu.ByMethod{gpu.Allocated: 150_000}) {
		t.Errorf("process accounts after the interval of the reuse: %+v, want one for the new process with 150000 mJ allocated", second)
	}
	second = accounts(look(3, []*gpu.Process{later}))
	if want := (gpu.ByMethod{gpu.Exclusive: 300_000, gpu.Allocated: 150_000}); len(second) != 1 || second[0].Energy != want {
		t.Errorf("process accounts in the next interval: %+v, want one account with 300000 mJ exclusive and 150000 mJ allocated", second)
	}
}

// A GPU disappears for a while. Its counter then continues or restarts.
func TestVanish(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	own := func(s float64) ledger.Observation { return look(s, []*gpu.Process{p}, holds(train, 1)) }
	play(t, []story{
		{
			"back with the same process",
			[]ledger.Observation{own(0), own(1), own(101), own(102)},
			amounts{"energy": 102 * 300_000, "train exclusive": 102 * 300_000},
		},
		{
			"back with another process",
			[]ledger.Observation{own(0), own(1), look(101, []*gpu.Process{q}), look(102, []*gpu.Process{q})},
			amounts{"energy": 102 * 300_000, "train exclusive": 300_000, "gap": 100 * 300_000, "serve exclusive": 300_000},
		},
		{
			"back without processes, after the retention time",
			[]ledger.Observation{own(0), own(1), look(901, nil), look(902, nil)},
			amounts{"energy": 902 * 300_000, "retired": 300_000, "gap": 900 * 300_000, "idle": 300_000},
		},
		{
			"back with a restarted counter",
			[]ledger.Observation{own(0), own(1), count(own(101), 0), count(own(102), 300_000), count(own(103), 600_000)},
			amounts{"energy": 900_000, "train exclusive": 900_000, "resets": 1},
		},
	})
}

// A GPU that replaces another GPU in a slot must have its own book. The book of the replaced GPU must not change.
func TestReplaced(t *testing.T) {
	const other = "GPU-5d2f9a60-0000-4000-8000-000000000002"
	processes := []*gpu.Process{process(21, in(train))}
	l := newLedger()
	before := ask(t, l, look(0, processes, holds(train, 1)), look(1, processes, holds(train, 1)))
	for s := 2.0; s <= 5; s++ {
		o := count(look(s, processes), gpu.Millijoules(7_000_000_000+s*250_000))
		o.UUID = other
		ask(t, l, o)
	}
	if diff := cmp.Diff(before, bookOf(l, uuid)); diff != "" {
		t.Errorf("book of the old GPU (-before +after):\n%s", diff)
	}
	want := amounts{"energy": 750_000, "train exclusive": 750_000}
	if diff := cmp.Diff(want, amountsOf(bookOf(l, other))); diff != "" {
		t.Errorf("book of the new GPU (-want +got):\n%s", diff)
	}
}

// If a process reuses a PID, only the process account with this PID must close.
func TestHeldPIDBesideAnother(t *testing.T) {
	p, q := process(21, in(train)), process(22, in(train))
	later := new(*p)
	later.ID.Start = q.ID.Start + 5
	ps := ask(t, newLedger(),
		look(0, []*gpu.Process{p, q}), saw(look(1, []*gpu.Process{p, q}), q),
		saw(look(2, []*gpu.Process{later, q}), q)).Accounts[0].Processes
	if len(ps) != 2 || ps[0].ProcessID != q.ID || ps[0].Energy != (gpu.ByMethod{gpu.Shared: 600_000}) || ps[1].ProcessID != later.ID {
		t.Errorf("process accounts: %+v, want one with 600000 mJ shared and one for the new process", ps)
	}
}

// Processes that start in one tick of the kernel's clock, such as the workers of one launcher, must get separate
// accounts.
func TestSameTick(t *testing.T) {
	p, q := process(21, in(train)), process(22, in(train))
	q.ID.Start = p.ID.Start
	both := []*gpu.Process{p, q}
	ps := ask(t, newLedger(), look(0, both), saw(look(1, both), q)).Accounts[0].Processes
	if len(ps) != 2 || ps[0].ProcessID != p.ID || ps[0].Energy.Sum() != 0 || ps[1].ProcessID != q.ID || ps[1].Energy.Sum() != 300_000 {
		t.Errorf("process accounts: %+v, want one with 0 mJ and one with 300000 mJ", ps)
	}
}
