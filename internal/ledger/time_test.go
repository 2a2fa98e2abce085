package ledger_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// amounts is what a book holds, by whom and how: "train exclusive", "serve 2
// allocated" on MIG instance 2, "idle". The total and the numbers of resets and
// rejected readings stand there too. What is 0 does not.
type amounts map[string]gpu.Millijoules

func amountsOf(b *gpu.Book) amounts {
	got := amounts{
		"energy": b.Energy, "retired": b.Retired,
		"resets": gpu.Millijoules(b.Resets), "rejected": gpu.Millijoules(b.Rejected),
	}
	for _, a := range b.Containers {
		pod, _, _ := strings.Cut(a.Pod, "-")
		for m, e := range a.Energy {
			got[strings.Join(strings.Fields(pod+" "+a.GPUInstance+" "+gpu.Method(m).String()), " ")] = e
		}
	}
	for r, e := range b.Unattributed {
		got[gpu.Reason(r).String()] = e
	}
	for what, amount := range got {
		if amount == 0 {
			delete(got, what)
		}
	}
	return got
}

// count replaces the counter of a look.
func count(o ledger.Observation, mJ gpu.Millijoules) ledger.Observation {
	o.Energy = &mJ
	return o
}

func unread(o ledger.Observation) ledger.Observation {
	o.Energy = nil
	return o
}

// saw adds that a process was seen at work, also if it is not listed.
func saw(o ledger.Observation, p gpu.Process) ledger.Observation {
	o.Activity = []ledger.Activity{worked(p, 100)}
	return o
}

// stepped sets the wall clock of a look.
func stepped(o ledger.Observation, by time.Duration) ledger.Observation {
	o.At.Wall = o.At.Wall.Add(by)
	return o
}

// A story is a sequence of looks at a GPU and what its book holds in the end.
type story struct {
	name  string
	looks []ledger.Observation
	want  amounts
}

// tell runs stories. After every look the book balances, and nothing in it falls but
// what is retired.
func tell(t *testing.T, stories []story) {
	t.Helper()
	for _, tt := range stories {
		t.Run(tt.name, func(t *testing.T) {
			l, last := newLedger(), amounts{}
			for _, o := range tt.looks {
				now := amountsOf(ask(t, l, o))
				for what, was := range last {
					if now[what] < was && now["retired"] == last["retired"] {
						t.Errorf("%s fell from %d to %d mJ at %v", what, was, now[what], o.At.Boot)
					}
				}
				last = now
			}
			if diff := cmp.Diff(tt.want, last); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestComeAndGo: processes that start and end, within an interval or between two
// looks.
func TestComeAndGo(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	heir, stranger := process(21, in(train)), process(21, in(serve))
	heir.ID.Start, stranger.ID.Start = p.ID.Start+5, p.ID.Start+5
	alone, both := []gpu.Process{p}, []gpu.Process{p, q}
	taken := []gpu.Process{stranger}
	tell(t, []story{
		{
			"starts and ends between two looks, and was seen at work",
			[]ledger.Observation{look(0, nil, holds(train, 1)), saw(look(1, nil, holds(train, 1)), q), look(2, nil, holds(train, 1))},
			amounts{"energy": 600_000, "serve exclusive": 300_000, "train allocated": 300_000},
		},
		{
			"starts and ends between two looks, and was not seen",
			[]ledger.Observation{look(0, nil, holds(train, 1)), look(1, nil, holds(train, 1))},
			amounts{"energy": 300_000, "train allocated": 300_000},
		},
		{
			"starts and ends between two looks beside another, and was seen at work",
			[]ledger.Observation{look(0, alone), saw(look(1, alone), q), look(2, alone), look(3, alone)},
			amounts{"energy": 900_000, "serve shared": 300_000, "train exclusive": 600_000},
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
			"ends in an interval, while another stays",
			[]ledger.Observation{look(0, both), look(1, alone), look(2, alone)},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "train exclusive": 300_000},
		},
		{
			"one ends, another starts",
			[]ledger.Observation{look(0, alone), look(1, []gpu.Process{q}), look(2, []gpu.Process{q})},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "serve exclusive": 300_000},
		},
		{
			"a PID is used again in the container",
			[]ledger.Observation{look(0, alone), look(1, alone), look(2, []gpu.Process{heir}), look(3, []gpu.Process{heir})},
			amounts{"energy": 900_000, "train exclusive": 900_000},
		},
		{
			"a PID is used again in another container",
			[]ledger.Observation{look(0, alone), look(1, taken), look(2, taken)},
			amounts{"energy": 600_000, "train allocated": 150_000, "serve allocated": 150_000, "serve exclusive": 300_000},
		},
		{
			"a PID is used again, and who has it now was seen at work",
			[]ledger.Observation{look(0, alone), saw(look(1, taken), stranger), look(2, taken)},
			amounts{"energy": 600_000, "serve shared": 300_000, "serve exclusive": 300_000},
		},
	})
}

// TestHeldPID: of two processes of one container with one PID, the first pays no more
// than its part of the interval in which it ended, and its account, which is held,
// makes place for that of the second.
func TestHeldPID(t *testing.T) {
	p := process(21, in(train))
	heir := p
	heir.ID.Start += 5
	l := newLedger()
	accounts := func(looks ...ledger.Observation) []gpu.ProcessAccount {
		return ask(t, l, looks...).Containers[0].Processes
	}
	first := accounts(look(0, []gpu.Process{p}), look(1, []gpu.Process{p}))
	if len(first) != 1 || first[0].Energy != (gpu.ByMethod{gpu.Exclusive: 300_000}) {
		t.Errorf("before: %+v", first)
	}
	second := accounts(look(2, []gpu.Process{heir}))
	if len(second) != 1 || second[0].ProcessID != heir.ID || !second[0].Opened.Equal(at(1).Wall) ||
		second[0].Energy != (gpu.ByMethod{gpu.Allocated: 150_000}) {
		t.Errorf("after the interval in which it changed hands: %+v", second)
	}
	second = accounts(look(3, []gpu.Process{heir}))
	if want := (gpu.ByMethod{gpu.Exclusive: 300_000, gpu.Allocated: 150_000}); len(second) != 1 || second[0].Energy != want {
		t.Errorf("afterwards: %+v", second)
	}
}

// TestClocks: only the boot clock counts. A wall clock that is set, either way,
// changes no amount; a suspended machine makes a gap, and so does a late look, if it
// is late enough.
func TestClocks(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []gpu.Process{p, q}
	own := func(s float64) ledger.Observation { return look(s, []gpu.Process{p}, holds(train, 1)) }
	tell(t, []story{
		{
			"the wall clock is set forward",
			[]ledger.Observation{own(0), stepped(own(1), 24*time.Hour), stepped(own(2), 24*time.Hour)},
			amounts{"energy": 600_000, "train exclusive": 600_000},
		},
		{
			"the wall clock is set back, and again",
			[]ledger.Observation{own(0), own(1), stepped(own(2), -time.Hour), stepped(own(3), -24*time.Hour), own(4)},
			amounts{"energy": 1_200_000, "train exclusive": 1_200_000},
		},
		{
			"suspended for an hour, and nothing changed",
			[]ledger.Observation{own(0), own(1), count(own(3601), 1_330_000), count(own(3602), 1_630_000)},
			amounts{"energy": 630_000, "train exclusive": 630_000},
		},
		{
			"suspended for an hour, and somebody came",
			[]ledger.Observation{own(0), own(1), count(look(3601, both), 1_330_000), count(look(3602, both), 1_630_000)},
			amounts{"energy": 630_000, "train exclusive": 300_000, "gap": 30_000, "train allocated": 150_000, "serve allocated": 150_000},
		},
		{
			"suspended with nobody there",
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
			"as late as is no gap",
			[]ledger.Observation{look(0, both), look(10, both)},
			amounts{"energy": 3_000_000, "train allocated": 1_500_000, "serve allocated": 1_500_000},
		},
		{
			"a moment later than that",
			[]ledger.Observation{look(0, both), look(10.001, both)},
			amounts{"energy": 3_000_300, "gap": 3_000_300},
		},
		{
			"a look that is not newer",
			[]ledger.Observation{own(0), own(1), count(own(1), 9_999_999), count(own(0.5), 9_999_999), own(2)},
			amounts{"energy": 600_000, "train exclusive": 600_000},
		},
	})
}

// TestClockStepSeconds: held and active seconds, and when accounts were opened, do
// not follow a wall clock that is set.
func TestClockStepSeconds(t *testing.T) {
	for _, by := range []time.Duration{24 * time.Hour, -24 * time.Hour} {
		p := process(21, in(train))
		own := func(s float64) ledger.Observation { return look(s, []gpu.Process{p}, holds(train, 1)) }
		b := ask(t, newLedger(), own(0), own(1), stepped(own(2), by), stepped(own(3), by))
		a := b.Containers[0]
		if a.Allocated != 3*time.Second || a.Active != 3*time.Second || !a.Opened.Equal(at(0).Wall) || !b.Opened.Equal(at(0).Wall) {
			t.Errorf("set by %v: held %v, active %v, opened %v and %v", by, a.Allocated, a.Active, a.Opened, b.Opened)
		}
	}
}

// TestSlowTick: what is a gap depends on the tick.
func TestSlowTick(t *testing.T) {
	both := []gpu.Process{process(21, in(train)), process(31, in(serve))}
	for seconds, want := range map[float64]amounts{
		50: {"energy": 15_000_000, "train allocated": 7_500_000, "serve allocated": 7_500_000},
		51: {"energy": 15_300_000, "gap": 15_300_000},
	} {
		l := ledger.New(ledger.Config{Tick: 10 * time.Second, Retention: 5 * time.Minute})
		if diff := cmp.Diff(want, amountsOf(ask(t, l, look(0, both), look(seconds, both)))); diff != "" {
			t.Errorf("after %v s (-want +got):\n%s", seconds, diff)
		}
	}
}

// TestCounterFaults: a driver that is loaded again, and readings that are wrong, with
// somebody there.
func TestCounterFaults(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	own := func(s float64, mJ gpu.Millijoules) ledger.Observation {
		return count(look(s, []gpu.Process{p}, holds(train, 1)), mJ)
	}
	nobody := func(s float64, mJ gpu.Millijoules) ledger.Observation { return count(look(s, nil), mJ) }
	tell(t, []story{
		{
			"glitch low",
			[]ledger.Observation{own(0, 5_000_000), own(1, 2_500_000), own(2, 5_600_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "rejected": 1},
		},
		{
			"glitch to nothing",
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
			"a glitch just before another comes",
			[]ledger.Observation{own(0, 5_000_000), own(1, 2_500_000), count(look(2, []gpu.Process{p, q}), 5_600_000)},
			amounts{"energy": 600_000, "train allocated": 300_000, "serve allocated": 300_000, "rejected": 1},
		},
		{
			"driver reload",
			[]ledger.Observation{own(0, 5_000_000), own(1, 5_300_000), own(2, 40_000), own(3, 340_000), own(4, 640_000)},
			amounts{"energy": 900_000, "train exclusive": 900_000, "resets": 1},
		},
		{
			"driver reload, everybody gone",
			[]ledger.Observation{own(0, 5_000_000), own(1, 5_300_000), nobody(2, 0), nobody(3, 75_000), nobody(4, 150_000)},
			amounts{"energy": 450_000, "train exclusive": 300_000, "idle": 150_000, "resets": 1},
		},
		{
			"driver reload of a minute",
			[]ledger.Observation{own(0, 5_000_000), own(60, 40_000), own(61, 340_000), own(62, 640_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "resets": 1},
		},
		{
			"two reloads",
			[]ledger.Observation{own(0, 5_000_000), own(1, 40_000), own(2, 340_000), own(3, 10_000), own(4, 310_000)},
			amounts{"energy": 600_000, "train exclusive": 600_000, "resets": 2},
		},
		{
			"a glitch right after a reload", // delays its confirmation
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

// TestVanish: a GPU that is gone for a while, with its counter going on or not.
func TestVanish(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	own := func(s float64) ledger.Observation { return look(s, []gpu.Process{p}, holds(train, 1)) }
	tell(t, []story{
		{
			"back with the same process",
			[]ledger.Observation{own(0), own(1), own(101), own(102)},
			amounts{"energy": 102 * 300_000, "train exclusive": 102 * 300_000},
		},
		{
			"back with another process",
			[]ledger.Observation{own(0), own(1), look(101, []gpu.Process{q}), look(102, []gpu.Process{q})},
			amounts{"energy": 102 * 300_000, "train exclusive": 300_000, "gap": 100 * 300_000, "serve exclusive": 300_000},
		},
		{
			"back with nobody, after the retention time",
			[]ledger.Observation{own(0), own(1), look(901, nil), look(902, nil)},
			amounts{"energy": 902 * 300_000, "retired": 300_000, "gap": 900 * 300_000, "idle": 300_000},
		},
		{
			"back with a counter that begins anew",
			[]ledger.Observation{own(0), own(1), count(own(101), 0), count(own(102), 300_000), count(own(103), 600_000)},
			amounts{"energy": 900_000, "train exclusive": 900_000, "resets": 1},
		},
	})
}

// TestReplaced: another GPU in a slot has a book of its own, which begins with its own
// counter. That of the old one stands, to the millijoule.
func TestReplaced(t *testing.T) {
	const other = "GPU-5d2f9a60-0000-4000-8000-000000000002"
	processes := []gpu.Process{process(21, in(train))}
	l := newLedger()
	before := ask(t, l, look(0, processes, holds(train, 1)), look(1, processes, holds(train, 1)))
	for s := 2.0; s <= 5; s++ {
		o := count(look(s, processes), gpu.Millijoules(7_000_000_000+s*250_000))
		o.UUID = other
		ask(t, l, o)
	}
	if diff := cmp.Diff(before, bookOf(l, uuid)); diff != "" {
		t.Errorf("the old one's book (-before +after):\n%s", diff)
	}
	want := amounts{"energy": 750_000, "train exclusive": 750_000}
	if diff := cmp.Diff(want, amountsOf(bookOf(l, other))); diff != "" {
		t.Errorf("the new one's book (-want +got):\n%s", diff)
	}
}

// TestReconfigured: an interval in which a GPU was divided anew is divided as the GPU
// was at its end. Without a signal the instances bear it by their slices.
func TestReconfigured(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	look := func(s float64, m *gpu.MIG, places map[gpu.ProcessID]string, processes ...gpu.Process) ledger.Observation {
		o := count(look(s, processes), gpu.Millijoules(s*700_000))
		o.MIG, o.Places = m, places
		o.ActivityKnown, o.Utilization = m == nil, nil
		return o
	}
	two := &gpu.MIG{Slices: 7, Instances: []gpu.Instance{{ID: "1", Slices: 3}, {ID: "2", Slices: 4}}}
	one := &gpu.MIG{Slices: 7, Instances: []gpu.Instance{{ID: "0", Slices: 7}}}
	divided := func(s float64) ledger.Observation {
		return look(s, two, map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}, p, q)
	}
	joined := func(s float64) ledger.Observation {
		return look(s, one, map[gpu.ProcessID]string{p.ID: "0"}, p)
	}
	whole := func(s float64) ledger.Observation { return look(s, nil, nil, p) }
	tell(t, []story{
		{
			"one instance instead of two",
			[]ledger.Observation{divided(0), divided(1), joined(2), joined(3)},
			amounts{"energy": 2_100_000, "train 1 allocated": 300_000, "serve 2 allocated": 400_000, "train 0 allocated": 1_400_000},
		},
		{
			"divided",
			[]ledger.Observation{whole(0), whole(1), divided(2), divided(3)},
			amounts{"energy": 2_100_000, "train exclusive": 700_000, "train 1 allocated": 600_000, "serve 2 allocated": 800_000},
		},
		{
			"made whole",
			[]ledger.Observation{divided(0), divided(1), whole(2), whole(3)},
			amounts{"energy": 2_100_000, "train 1 allocated": 300_000, "serve 2 allocated": 400_000, "train allocated": 350_000, "serve allocated": 350_000, "train exclusive": 700_000},
		},
	})
}
