package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

const uuid = "GPU-5d2f9a60-0000-4000-8000-000000000001"

var (
	train = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid-train", Part: "main"}
	serve = gpu.Owner{Kind: gpu.OwnerPod, Scope: "web", Name: "serve-0", UID: "uid-serve", Part: "model"}
)

func at(seconds float64) gpu.Instant {
	d := time.Duration(seconds * float64(time.Second))
	return gpu.Instant{Wall: time.Unix(1_800_000_000, 0).Add(d), Boot: time.Hour + d}
}

func process(pid uint32, owner gpu.Owner) *gpu.Process {
	return &gpu.Process{ID: gpu.ProcessID{PID: pid, Start: uint64(pid) * 10}, Name: "worker", Owner: owner}
}

func in(c gpu.Owner) gpu.Owner { return c }

func holds(c gpu.Owner, replicas int) gpu.Allocation {
	sharing := gpu.SharingExclusive
	if replicas > 1 {
		sharing = gpu.SharingTimeSlicing
	}
	return gpu.Allocation{UUID: uuid, Owner: c, Resource: "nvidia.com/gpu", Sharing: sharing, Replicas: replicas, Live: true}
}

// look returns an observation of a GPU that draws 300 W.
func look(seconds float64, processes []*gpu.Process, allocations ...gpu.Allocation) ledger.Observation {
	return ledger.Observation{
		UUID: uuid, At: at(seconds),
		Energy:   new(gpu.Millijoules(1_000_000 + int64(seconds*300_000))),
		MaxPower: 700, Utilization: new(0.5), // without a power limit, an unknown idle power is 0
		Processes: processes, ProcessesKnown: true,
		ActivityKnown: true, Sampled: gpu.Span{From: at(seconds - 1).Boot, To: at(seconds).Boot},
		Allocations: allocations, AllocationsKnown: true,
	}
}

func worked(p *gpu.Process, ms time.Duration) ledger.Activity {
	return ledger.Activity{Process: p, Busy: ms * time.Millisecond}
}

func unresolved(gpu.ProcessID) gpu.Owner { return gpu.Owner{} }

func newLedger() *ledger.Ledger {
	return ledger.New(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute})
}

func bookOf(l *ledger.Ledger, uuid string) *gpu.Book {
	if b := l.State().Books[uuid]; b != nil {
		return &b.Book
	}
	return nil
}

func ask(t *testing.T, l *ledger.Ledger, observations ...ledger.Observation) *gpu.Book {
	t.Helper()
	for _, o := range observations {
		l.Observe(o)
		l.Settle(o.At, unresolved)
	}
	b := bookOf(l, uuid)
	if b == nil {
		t.Fatal("the GPU has no book")
	}
	if b.Energy != b.Sum() {
		t.Fatalf("the book does not balance: energy %d mJ, sum %d mJ", b.Energy, b.Sum())
	}
	return b
}

// TestOwners checks the rules in the comment on chargePart for a whole GPU, alone and in combination.
func TestOwners(t *testing.T) {
	host := process(9, gpu.Owner{Kind: gpu.OwnerHost})
	unmapped := process(12, gpu.Owner{Kind: gpu.OwnerUnmapped})
	first, second, third := process(21, in(train)), process(22, in(train)), process(11, in(serve))
	sidecar, claimed := train, holds(train, 1)
	sidecar.Part, claimed.Owner.Part = "sidecar", ""
	beside := process(23, in(sidecar))
	mute := func(o ledger.Observation) ledger.Observation {
		o.ActivityKnown = false
		return o
	}
	active := func(o ledger.Observation, activity ...ledger.Activity) ledger.Observation {
		o.Activity = activity
		return o
	}
	type amounts map[string]gpu.Millijoules
	tests := []struct {
		name string
		obs  func(seconds float64) ledger.Observation
		want amounts
	}{
		{"one container", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{first}, holds(train, 1))
		}, amounts{"train exclusive": 300_000}},
		{"one container with two processes", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{first, second}, holds(train, 1))
		}, amounts{"train exclusive": 300_000}},
		{"one container without an allocation", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{first})
		}, amounts{"train exclusive": 300_000}},
		{"a hog beside a holder without a context", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{third}, holds(train, 1))
		}, amounts{"train allocated": 300_000}},
		{"a working hog beside a holder without a context", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{third}, holds(train, 1)), worked(third, 900))
		}, amounts{"serve shared": 300_000}},
		{"two containers by activity", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, third}), worked(first, 3), worked(third, 1))
		}, amounts{"train shared": 225_000, "serve shared": 75_000}},
		{"an idle context beside a busy one", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, third}, holds(train, 1), holds(serve, 1)), worked(third, 5))
		}, amounts{"serve shared": 300_000}},
		{"a signal without samples: holders by replicas", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{first, third}, holds(train, 2), holds(serve, 1))
		}, amounts{"train allocated": 200_000, "serve allocated": 100_000}},
		{"no signal: holders by replicas", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, third}, holds(train, 2), holds(serve, 1)))
		}, amounts{"train allocated": 200_000, "serve allocated": 100_000}},
		{"samples without a signal do not count", func(s float64) ledger.Observation {
			return mute(active(look(s, []*gpu.Process{first, third}, holds(train, 2), holds(serve, 1)), worked(third, 1)))
		}, amounts{"train allocated": 200_000, "serve allocated": 100_000}},
		{"no signal, one of two containers holds the GPU", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, third}, holds(serve, 1)))
		}, amounts{"serve allocated": 300_000}},
		{"no signal, containers of a pod share a claim, beside another pod", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, third}, claimed, holds(serve, 1)))
		}, amounts{"train allocated": 150_000, "serve allocated": 150_000}},
		{"no signal, one of two containers of a pod holds the GPU", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, beside}, holds(train, 1)))
		}, amounts{"train allocated": 300_000}},
		{"no signal, two containers share a claim, beside another pod's container", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, beside, third}, claimed, holds(serve, 1)))
		}, amounts{"train allocated": 75_000, "beside allocated": 75_000, "serve allocated": 150_000}},
		{"no signal, no holder: equally, odd millijoules to the smaller key", func(s float64) ledger.Observation {
			o := mute(look(s, []*gpu.Process{first, third}))
			*o.Energy += gpu.Millijoules(s)
			return o
		}, amounts{"train allocated": 150_001, "serve allocated": 150_000}},
		{"container and host by activity", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, host}, holds(train, 1)), worked(first, 2), worked(host, 1))
		}, amounts{"train shared": 200_000, "host": 100_000}},
		{"the display server of the host beside a busy container", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, host}, holds(train, 1)), worked(first, 2))
		}, amounts{"train exclusive": 300_000}},
		{"the display server of the host beside an idle container", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{first, host}, holds(train, 1))
		}, amounts{"train exclusive": 300_000}},
		{"the same without a signal", func(s float64) ledger.Observation {
			return mute(look(s, []*gpu.Process{first, host}, holds(train, 1)))
		}, amounts{"train allocated": 300_000}},
		{"host and unmapped, no activity, an absent holder", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{host, unmapped}, holds(train, 1))
		}, amounts{"train allocated": 300_000}},
		{"host and unmapped, no activity, no holder", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{host, unmapped})
		}, amounts{"host": 150_000, "unmapped": 150_000}},
		{"a hog beside an idle holder with a context", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, third}, holds(train, 1)), worked(third, 900))
		}, amounts{"serve shared": 300_000}},
		{"two replicas of one pod beside one replica of another: by work", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, second, third}, holds(train, 2), holds(serve, 1)), worked(first, 100), worked(second, 100), worked(third, 400))
		}, amounts{"train shared": 100_000, "serve shared": 200_000}},
		{"container and unmapped by activity", func(s float64) ledger.Observation {
			return active(look(s, []*gpu.Process{first, unmapped}, holds(train, 1)), worked(first, 2), worked(unmapped, 1))
		}, amounts{"train shared": 200_000, "unmapped": 100_000}},
		{"a process known only by its samples", func(s float64) ledger.Observation {
			return active(look(s, nil), worked(third, 2))
		}, amounts{"serve exclusive": 300_000}},
		{"host alone", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{host})
		}, amounts{"host": 300_000}},
		{"unmapped alone", func(s float64) ledger.Observation {
			return look(s, []*gpu.Process{unmapped})
		}, amounts{"unmapped": 300_000}},
		{"no process, one holder", func(s float64) ledger.Observation {
			return look(s, nil, holds(train, 1))
		}, amounts{"train allocated": 300_000}},
		{"no process, two holders by replicas", func(s float64) ledger.Observation {
			return look(s, nil, holds(train, 2), holds(serve, 1))
		}, amounts{"train allocated": 200_000, "serve allocated": 100_000}},
		{"no process, a dead holder", func(s float64) ledger.Observation {
			h := holds(train, 1)
			h.Live = false
			return look(s, nil, h)
		}, amounts{"unknown": 300_000}},
		{"no process, a holder in an unknown pod", func(s float64) ledger.Observation {
			h := holds(train, 1)
			h.Owner.UID = ""
			return look(s, nil, h)
		}, amounts{"unknown": 300_000}},
		{"no process, a holder of zero replicas", func(s float64) ledger.Observation {
			return look(s, nil, holds(train, 0))
		}, amounts{"unknown": 300_000}},
		{"nobody", func(s float64) ledger.Observation {
			return look(s, nil)
		}, amounts{"idle": 300_000}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ask(t, newLedger(), tt.obs(0), tt.obs(1))
			got := amounts{}
			for _, a := range b.Accounts {
				for m, e := range a.Energy {
					if e != 0 {
						got[map[string]string{"main": "train", "sidecar": "beside", "model": "serve"}[a.Part]+" "+gpu.Method(m).String()] = e
					}
				}
			}
			for r, e := range b.Unattributed {
				if e != 0 {
					got[gpu.Reason(r).String()] = e
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("amounts (-want +got):\n%s", diff)
			}
		})
	}
}

// Exclusive energy of a container is divided among its processes. The energy of each process is not exclusive.
func TestInsideContainer(t *testing.T) {
	first, second := process(21, in(train)), process(22, in(train))
	quiet := look(1, []*gpu.Process{first, second}, holds(train, 1))
	busy := look(2, []*gpu.Process{first, second}, holds(train, 1))
	busy.Activity = []ledger.Activity{worked(first, 1), worked(second, 2)}
	b := ask(t, newLedger(), look(0, []*gpu.Process{first, second}, holds(train, 1)), quiet, busy)
	want := []gpu.ByMethod{{gpu.Shared: 100_000, gpu.Allocated: 150_000}, {gpu.Shared: 200_000, gpu.Allocated: 150_000}}
	var got []gpu.ByMethod
	for _, p := range b.Accounts[0].Processes {
		got = append(got, p.Energy)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("processes (-want +got):\n%s", diff)
	}
}

// An interval must wait at most ten seconds for the owner of a process.
func TestLateName(t *testing.T) {
	p := process(21, gpu.Owner{})
	l := newLedger()
	l.Observe(look(0, []*gpu.Process{p}))
	l.Observe(look(1, []*gpu.Process{p}))
	l.Settle(at(1), unresolved)
	if got := bookOf(l, uuid).Energy; got != 0 {
		t.Errorf("settled %d mJ before the owner is known, want 0", got)
	}
	l.Settle(at(2), func(gpu.ProcessID) gpu.Owner { return in(train) })
	if got := bookOf(l, uuid).Accounts[0].Energy[gpu.Exclusive]; got != 300_000 {
		t.Errorf("train was charged %d mJ, want 300000", got)
	}
	l.Observe(look(3, []*gpu.Process{process(22, gpu.Owner{})}))
	l.Settle(at(12.9), unresolved)
	if got := bookOf(l, uuid).Unattributed[gpu.Unmapped]; got != 0 {
		t.Errorf("%d mJ unmapped after 9.9 s, want 0", got)
	}
	l.Settle(at(13), unresolved)
	b := bookOf(l, uuid)
	if b.Unattributed[gpu.Unmapped] == 0 || b.Energy != b.Sum() || b.Settled != at(3) {
		t.Errorf("book after ten seconds: %+v, want unmapped energy, settled up to the last observation", b)
	}
}

// While the kubelet does not respond, a pod without a process must pay nothing for its allocation. No account may end.
func TestKubeletAway(t *testing.T) {
	l := newLedger()
	ask(t, l, look(0, nil, holds(train, 1)), look(1, nil, holds(train, 1)))
	for s := 2.0; s <= 400; s++ {
		o := look(s, nil)
		o.AllocationsKnown = false
		l.Observe(o)
		l.Settle(at(s), unresolved)
	}
	b := bookOf(l, uuid)
	if len(b.Accounts) != 1 || b.Accounts[0].Energy.Sum() != 300_000 || b.Unattributed[gpu.Unknown] == 0 {
		t.Errorf("book: %+v, want one account with 300000 mJ, and unknown energy", b)
	}
}

func TestKubeletLate(t *testing.T) {
	early := look(1, nil)
	early.AllocationsKnown = false
	b := ask(t, newLedger(), look(0, nil), early, look(2, nil, holds(train, 1)))
	if got := b.Accounts[0].Energy[gpu.Allocated]; got != 600_000 {
		t.Errorf("the holder was charged %d mJ, want 600000: %+v", got, b)
	}
}

// While the driver reports no processes, the ledger uses the last list for ten seconds. Energy must be exclusive only
// if the driver reported a list at both ends of the interval.
func TestUnlisted(t *testing.T) {
	p := process(21, in(train))
	blind := func(s float64) ledger.Observation {
		o := look(s, nil, holds(train, 1))
		o.ProcessesKnown = false
		return o
	}
	l := newLedger()
	ask(t, l, look(0, []*gpu.Process{p}, holds(train, 1)))
	for s := 1.0; s <= 30; s++ {
		ask(t, l, blind(s))
	}
	b := ask(t, l, look(31, []*gpu.Process{p}), look(32, []*gpu.Process{p}))
	var got []gpu.ByMethod
	for _, a := range b.Accounts {
		got = append(got, a.Energy)
	}
	want := []gpu.ByMethod{{gpu.Exclusive: 300_000, gpu.Allocated: 31 * 300_000}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("energies (-want +got):\n%s", diff)
	}
}

// The ledger must use the last process list even if its observation contained no reading of the counter.
func TestLastList(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	between, blind, blinder := look(0.5, []*gpu.Process{p, q}), look(1, nil), look(2, nil)
	between.Energy, blind.ProcessesKnown, blinder.ProcessesKnown = nil, false, false
	b := ask(t, newLedger(), look(0, []*gpu.Process{p}), between, blind, blinder)
	want := gpu.ByMethod{gpu.Allocated: 300_000}
	for _, a := range b.Accounts {
		if a.Energy != want || a.Processes[0].Name != "worker" {
			t.Errorf("%s was charged %v, want %v: %+v", a.Name, a.Energy, want, a.Processes)
		}
	}
}

// After ten seconds without a process list, the energy must no longer count as idle.
func TestUnlistedNobody(t *testing.T) {
	l := newLedger()
	ask(t, l, look(0, nil))
	for s := 1.0; s <= 30; s++ {
		blind := look(s, nil)
		blind.ProcessesKnown = false
		ask(t, l, blind)
	}
	want := amounts{"energy": 30 * 300_000, "idle": 10 * 300_000, "unknown": 20 * 300_000}
	if diff := cmp.Diff(want, amountsOf(bookOf(l, uuid))); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// An interval that waits for an owner must keep the allocations that the kubelet reported at the end of the interval.
func TestAllocationsOfItsTime(t *testing.T) {
	x := []*gpu.Process{process(21, gpu.Owner{})}
	l := newLedger()
	for _, o := range []ledger.Observation{look(0, x, holds(train, 1)), look(1, x, holds(train, 1)), look(2, x, holds(serve, 1))} {
		l.Observe(o)
	}
	l.Settle(at(12), unresolved)
	for _, a := range bookOf(l, uuid).Accounts {
		if a.Allocated != time.Second {
			t.Errorf("%s held the GPU for %v, want 1s", a.Name, a.Allocated)
		}
	}
}

// If the kubelet does not respond within ten seconds, the only owner on a GPU must be charged by allocation, because
// another pod might hold the GPU.
func TestAloneWithoutKubelet(t *testing.T) {
	silent := look(1, []*gpu.Process{process(21, in(train))})
	silent.AllocationsKnown = false
	l := newLedger()
	if b := ask(t, l, look(0, silent.Processes), silent); b.Energy != 0 {
		t.Errorf("charged before the kubelet's allocations are known: %+v", b)
	}
	l.Settle(at(11), unresolved)
	if b := bookOf(l, uuid); b.Accounts[0].Energy != (gpu.ByMethod{gpu.Allocated: 300_000}) {
		t.Errorf("book: %+v, want 300000 mJ allocated", b)
	}
}

// All processes without a known owner count as one owner, whether they are unmapped or still pending.
func TestNobodyTwice(t *testing.T) {
	processes := []*gpu.Process{process(21, in(train)), process(31, gpu.Owner{Kind: gpu.OwnerUnmapped}), process(32, gpu.Owner{})}
	l := newLedger()
	ask(t, l, look(0, processes), look(1, processes))
	l.Settle(at(11), unresolved)
	want := amounts{"energy": 300_000, "train allocated": 150_000, "unmapped": 150_000}
	if diff := cmp.Diff(want, amountsOf(bookOf(l, uuid))); diff != "" {
		t.Errorf("amounts (-want +got):\n%s", diff)
	}
}

// The remaining millijoules go to the parts with the largest remainders. If two remainders are equal, the smaller
// account key gets the millijoule. The order of the holders must not matter.
func TestRemainders(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	both := []*gpu.Process{p, q}
	third := look(1, both)
	third.Activity = []ledger.Activity{worked(p, 100), worked(q, 200)}
	play(t, []story{
		{
			"largest remainder",
			[]ledger.Observation{count(look(0, both), 0), count(third, 10)},
			amounts{"energy": 10, "train shared": 3, "serve shared": 7},
		},
		{
			"tie",
			[]ledger.Observation{count(look(0, nil), 0), count(look(1, nil, holds(serve, 1), holds(train, 1)), 11)},
			amounts{"energy": 11, "train allocated": 6, "serve allocated": 5},
		},
	})
}
