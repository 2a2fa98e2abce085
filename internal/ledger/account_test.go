package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func TestBirth(t *testing.T) {
	b := ask(t, newLedger(), look(0, nil), look(1, nil, holds(train, 1)))
	want := []gpu.Account{{AccountKey: gpu.AccountKey{Owner: train}, Opened: at(0).Wall}}
	ignore := cmpopts.IgnoreFields(gpu.Account{}, "LastAlive", "Energy", "Allocated", "GPUTime")
	if diff := cmp.Diff(want, b.Accounts, ignore); diff != "" {
		t.Errorf("accounts (-want +got):\n%s", diff)
	}
	l := newLedger()
	l.Observe(look(0, nil))
	l.Observe(look(1, nil, holds(train, 1)))
	if b := bookOf(l, uuid); len(b.Accounts) != 1 || b.Accounts[0].Energy.Sum() != 0 {
		t.Errorf("accounts before settlement: %+v, want one with 0 mJ", b.Accounts)
	}
}

// The account must open at zero before the gap is settled. The gap is settled only after the owner of the process is
// known.
func TestBirthAfterGap(t *testing.T) {
	p := process(31, gpu.Owner{})
	l := newLedger()
	ask(t, l, look(0, nil), look(1, nil))
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	ask(t, l, look(61, []*gpu.Process{p}, holds(serve, 1)))
	b := ask(t, l, look(62, []*gpu.Process{p}, holds(serve, 1)))
	if len(b.Accounts) != 1 || b.Accounts[0].Energy.Sum() != 0 {
		t.Errorf("accounts before settlement: %+v, want one with 0 mJ", b.Accounts)
	}
	o := look(63, []*gpu.Process{p}, holds(serve, 1))
	l.Observe(o)
	l.Settle(o.At, func(gpu.ProcessID) gpu.Owner { return in(serve) })
	want := amounts{"energy": 63 * 300_000, "idle": 300_000, "gap": 60 * 300_000, "serve exclusive": 600_000}
	if diff := cmp.Diff(want, amountsOf(bookOf(l, uuid))); diff != "" {
		t.Errorf("amounts after settlement (-want +got):\n%s", diff)
	}
}

// An account that opens at the end of a gap must stay open, even if the gap is longer than the retention time.
func TestBirthAfterLongGap(t *testing.T) {
	p, q := process(31, gpu.Owner{}), process(32, gpu.Owner{})
	l := newLedger()
	ask(t, l, look(0, nil), look(1, nil))
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, l.State())
	ask(t, l, look(601, []*gpu.Process{p}))
	told := func(id gpu.ProcessID) gpu.Owner {
		if id == p.ID {
			return in(train)
		}
		return gpu.Owner{}
	}
	for s := range 4 {
		o := look(602+float64(s), []*gpu.Process{p, q}, holds(serve, 1))
		l.Observe(o)
		owners := unresolved
		if s > 0 {
			owners = told
		}
		l.Settle(o.At, owners)
		if b := bookOf(l, uuid); len(b.Accounts) != 1 || b.Accounts[0].Owner != serve {
			t.Errorf("accounts %d s after the gap: %+v, want one of serve", 1+s, b.Accounts)
		}
	}
}

// If another process gets the PID of an ended process, the account of the ended process must close, because both
// accounts would have the same series.
func TestPIDReuse(t *testing.T) {
	p := process(21, in(train))
	again := new(*p)
	again.ID.Start += 5
	b := ask(t, newLedger(),
		look(0, []*gpu.Process{p}, holds(train, 1)), look(1, []*gpu.Process{p}, holds(train, 1)),
		look(2, []*gpu.Process{again}, holds(train, 1)), look(3, []*gpu.Process{again}, holds(train, 1)))
	ps := b.Accounts[0].Processes
	if len(ps) != 1 || ps[0].ProcessID != again.ID || ps[0].Energy.Sum() >= 600_000 {
		t.Errorf("process accounts: %+v, want one for the new process with less than 600000 mJ", ps)
	}
	if b.Accounts[0].Energy.Sum() != 900_000 {
		t.Errorf("the container was charged %d mJ, want 900000", b.Accounts[0].Energy.Sum())
	}
}

// At the limit of process accounts, the account of a process that reuses a PID must replace the earlier account.
func TestPIDReuseAtCap(t *testing.T) {
	p, q := process(21, in(train)), process(22, in(train))
	again := new(*p)
	again.ID.Start += 5
	l := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute, MaxProcesses: 1})
	ask(t, l, look(0, []*gpu.Process{p, q}), look(1, []*gpu.Process{p, q}))
	ps := ask(t, l, look(2, []*gpu.Process{again, q}), look(3, []*gpu.Process{again, q})).Accounts[0].Processes
	if len(ps) != 2 || !ps[0].Folded || ps[1].ProcessID != again.ID || ps[1].Energy.Sum() != 100_000+150_000 {
		t.Errorf("process accounts: %+v, want a folded one, and one for the new process with 250000 mJ", ps)
	}
}

// The ledger must not open the account of an earlier process with the same PID again, because the values of the series
// would decrease. Here an outdated list still contains the earlier process.
func TestPIDReuseUnlisted(t *testing.T) {
	p := process(21, in(train))
	again := new(*p)
	again.ID.Start += 5
	looks := []ledger.Observation{look(0, []*gpu.Process{p})}
	for s := 1.0; s <= 3; s++ {
		o := look(s, nil)
		o.ProcessesKnown, o.Activity = false, []ledger.Activity{worked(again, 1000)}
		looks = append(looks, o)
	}
	ps := ask(t, newLedger(), looks...).Accounts[0].Processes
	if len(ps) != 2 || ps[0].ProcessID != again.ID || ps[0].Energy.Sum() != 900_000 || !ps[1].Folded {
		t.Errorf("process accounts: %+v, want one for the new process with 900000 mJ and a folded one", ps)
	}
}

func TestProcessCap(t *testing.T) {
	var all []*gpu.Process
	for pid := range uint32(10) {
		all = append(all, process(pid+1, in(train)))
	}
	l := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute, MaxProcesses: 4})
	b := ask(t, l, look(0, all, holds(train, 1)), look(1, all, holds(train, 1)))
	var sum, folded gpu.Millijoules
	for _, p := range b.Accounts[0].Processes {
		sum += p.Energy.Sum()
		if p.Folded {
			folded += p.Energy.Sum()
		}
	}
	if len(b.Accounts[0].Processes) != 5 || sum != 300_000 || folded != 6*30_000 {
		t.Errorf("%d accounts with %d mJ, %d of it folded; want 5, 300000, 180000", len(b.Accounts[0].Processes), sum, folded)
	}
}

// A container's account must stay open while its processes run, even if they share the folded account.
func TestFoldedContainer(t *testing.T) {
	l := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute, MaxProcesses: 1})
	p, q := process(21, in(train)), process(31, in(serve))
	var b *gpu.Book
	for s := 0.0; s <= 120; s++ {
		o := look(s, []*gpu.Process{p, q})
		o.Activity = []ledger.Activity{worked(p, 500), worked(q, 500)}
		b = ask(t, l, o)
	}
	if len(b.Accounts) != 2 || b.Retired != 0 || b.Accounts[1].Energy[gpu.Shared] != 120*150_000 {
		t.Errorf("book: %+v, want two accounts, the second with 18000000 mJ shared, and nothing retired", b)
	}
}

// A job inside a pod gets its own account for its part of the pod's energy. The account must survive a restart, and
// must end with the job.
func TestJobInPod(t *testing.T) {
	job, other := process(31, train), process(32, train)
	job.Unit = gpu.Unit{Manager: "slurm", Name: "4711"}
	both, alone := []*gpu.Process{job, other}, []*gpu.Process{other}
	l := newLedger()
	ask(t, l, look(0, both, holds(train, 1)))
	b := ask(t, l, look(1, both, holds(train, 1)))
	if len(b.Accounts) != 1 || len(b.Accounts[0].Units) != 1 {
		t.Fatalf("accounts %+v, want one with a job", b.Accounts)
	}
	if u := b.Accounts[0].Units[0]; u.Unit != job.Unit || u.Energy != b.Accounts[0].Energy.Sum()/2 {
		t.Errorf("job %+v of %d mJ, want a half", u, b.Accounts[0].Energy.Sum())
	}
	l = ledger.Restore(ledger.Config{Tick: time.Second, Retention: time.Minute}, l.State())
	for s := 2; s < 90; s++ {
		b = ask(t, l, look(float64(s), alone, holds(train, 1)))
		if want := s < 62; (len(b.Accounts[0].Units) == 1) != want && s != 61 && s != 62 {
			t.Fatalf("second %d: jobs %+v", s, b.Accounts[0].Units)
		}
	}
}

// A job with processes in two containers of a pod has an account in each container. Both accounts must end together,
// because the sum over the job must not decrease while it runs.
func TestJobInContainers(t *testing.T) {
	job := gpu.Unit{Manager: "slurm", Name: "4711"}
	side := train
	side.Part = "side"
	first, second := process(31, train), process(32, side)
	first.Unit, second.Unit = job, job
	l := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute})
	sum := gpu.Millijoules(0)
	for s := range 200 {
		all := []*gpu.Process{second}
		if s < 2 {
			all = append(all, first)
		}
		b := ask(t, l, look(float64(s), all, holds(train, 1)))
		for _, g := range b.Groups() {
			if len(g.Units) != 1 || g.Units[0].Unit != job || g.Units[0].Energy < sum {
				t.Fatalf("second %d: jobs %+v after %d mJ", s, g.Units, sum)
			}
			sum = g.Units[0].Energy
		}
	}
	if sum == 0 {
		t.Error("the job has no energy")
	}
}
