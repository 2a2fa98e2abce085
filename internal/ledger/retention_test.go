package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func TestRetention(t *testing.T) {
	p, q := process(21, in(train)), process(22, in(train))
	l := newLedger()
	ask(t, l, look(0, []*gpu.Process{p, q}, holds(train, 1)), look(1, []*gpu.Process{p, q}, holds(train, 1)))
	b := bookOf(l, uuid)
	for s := 2.0; s <= 301; s++ {
		b = ask(t, l, look(s, []*gpu.Process{p}, holds(train, 1)))
	}
	if n := len(b.Accounts[0].Processes); n != 2 {
		t.Errorf("%d process accounts within the retention time, want 2", n)
	}
	for s := 302.0; s <= 304; s++ {
		b = ask(t, l, look(s, []*gpu.Process{p}, holds(train, 1)))
	}
	if n := len(b.Accounts[0].Processes); n != 1 {
		t.Errorf("%d process accounts after the retention time, want 1", n)
	}
	charged := b.Sum()
	for s := 305.0; s <= 610; s++ {
		b = ask(t, l, look(s, nil))
	}
	if len(b.Accounts) != 0 || b.Retired < charged {
		t.Errorf("%d accounts, %d mJ retired; want none, at least %d", len(b.Accounts), b.Retired, charged)
	}
}

func TestRetentionBesideAnother(t *testing.T) {
	p, q := process(21, in(train)), process(31, in(serve))
	l := newLedger()
	b := ask(t, l, look(0, []*gpu.Process{p, q}, holds(train, 1)), look(1, []*gpu.Process{p, q}, holds(train, 1)))
	for s := 2.0; s <= 305; s++ {
		b = ask(t, l, look(s, []*gpu.Process{q}, holds(serve, 1)))
	}
	if len(b.Accounts) != 1 || b.Accounts[0].Owner != serve || b.Retired == 0 {
		t.Errorf("book: %+v, want one account of serve, and retired energy", b)
	}
}

// The containers of a pod must retire together, when all of them have been absent for the retention time.
func TestPodRetires(t *testing.T) {
	sidecar := train
	sidecar.Part = "sidecar"
	p, q := process(21, in(train)), process(22, in(sidecar))
	l := newLedger()
	b := ask(t, l, look(0, []*gpu.Process{p, q}), look(1, []*gpu.Process{p, q}))
	for s := 2.0; s <= 400; s++ {
		b = ask(t, l, look(s, []*gpu.Process{q}))
	}
	for s := 401.0; s <= 700; s++ {
		b = ask(t, l, look(s, nil))
	}
	if len(b.Accounts) != 2 || b.Retired != 0 {
		t.Errorf("%d accounts within the retention time, want 2", len(b.Accounts))
	}
	b = ask(t, l, look(701, nil), look(702, nil))
	if len(b.Accounts) != 0 || b.Retired == 0 {
		t.Errorf("%d accounts after the retention time, want none", len(b.Accounts))
	}
}

// The sum of a pod's energy must not decrease while the pod's containers start and end. It restarts only when all
// containers have been absent for the retention time.
func TestPodSum(t *testing.T) {
	helper := train
	helper.Part = "helper"
	p, q := process(21, in(train)), process(22, in(helper))
	onInstance := holds(train, 1)
	onInstance.GPUInstance = "1"
	divided := func(o ledger.Observation) ledger.Observation {
		o.Partitions = &gpu.Partitioning{Slices: 7, Instances: []gpu.Partition{{ID: "1", Slices: 7}}}
		return o
	}
	phases := []struct {
		name  string
		until float64
		look  func(s float64) ledger.Observation
	}{
		{"held", 10, func(s float64) ledger.Observation { return look(s, nil, holds(train, 1)) }},
		{"held and used", 20, func(s float64) ledger.Observation { return look(s, []*gpu.Process{p}, holds(train, 1)) }},
		{"used by another container, without an allocation", 400, func(s float64) ledger.Observation { return look(s, []*gpu.Process{q}) }},
		{"an instance is held", 800, func(s float64) ledger.Observation { return divided(look(s, nil, onInstance)) }},
		{"no process", 1090, func(s float64) ledger.Observation { return look(s, nil) }},
		{"held again", 1100, func(s float64) ledger.Observation { return look(s, nil, holds(train, 1)) }},
	}
	l, s := newLedger(), 1.0
	ask(t, l, look(0, nil))
	var last gpu.GroupAccount
	for _, phase := range phases {
		for ; s <= phase.until; s++ {
			pods := ask(t, l, phase.look(s)).Groups()
			if len(pods) != 1 || pods[0].Energy < last.Energy || pods[0].Allocated < last.Allocated || !pods[0].Opened.Equal(at(0).Wall) {
				t.Fatalf("%s, second %v: pods %+v after %+v", phase.name, s, pods, last)
			}
			last = pods[0]
		}
	}
	if last.Energy != 810*300_000 || last.Allocated != 430*time.Second {
		t.Errorf("the pod has %d mJ and held the GPU for %v, want 243000000 and 7m10s", last.Energy, last.Allocated)
	}
	var b *gpu.Book
	for ; s <= 1402; s++ {
		b = ask(t, l, look(s, nil))
	}
	if len(b.Groups()) != 0 || b.Retired != last.Energy {
		t.Errorf("pods after the retention time: %+v, %d mJ retired; want none and all energy", b.Groups(), b.Retired)
	}
	b = ask(t, l, look(s, nil, holds(train, 1)))
	if pods := b.Groups(); len(pods) != 1 || pods[0].Energy != 300_000 || !pods[0].Opened.After(last.Opened) {
		t.Errorf("pods after the return: %+v, want one with 300000 mJ", pods)
	}
}

// Short-lived pods must leave only a few accounts. If the counter cannot be read, their accounts must retire. If the
// readings are invalid, the ledger cannot settle the book. Then no account retires, so new pods must get no accounts.
func TestStandstill(t *testing.T) {
	for name, spoil := range map[string]func(*ledger.Observation){
		"no counter": func(o *ledger.Observation) { o.Energy = nil },
		"a counter with invalid values": func(o *ledger.Observation) {
			*o.Energy = gpu.Millijoules(o.At.Boot) * gpu.Millijoules(o.At.Boot/time.Second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLedger()
			ask(t, l, look(0, nil), look(1, nil))
			for s := range 3600 {
				c := train
				c.UID = fmt.Sprint("uid-", s/10)
				o := look(2+float64(s), nil, holds(c, 1))
				spoil(&o)
				l.Observe(o)
				l.Settle(o.At, unresolved)
			}
			if n := len(bookOf(l, uuid).Accounts); n > 32 { // one new pod every ten seconds, kept for five minutes
				t.Errorf("%d accounts, want at most 32", n)
			}
			after := ask(t, l, look(3700, nil, holds(serve, 1)), look(3701, nil, holds(serve, 1)), look(3702, nil, holds(serve, 1)))
			if a := find(after, gpu.AccountKey{Owner: serve}); a == nil || a.Energy.Sum() == 0 {
				t.Errorf("account after the standstill: %+v, want some energy", a)
			}
		})
	}
}

// While the kubelet does not respond, an account without an allocation must end with its processes. The account of a
// pod that held a GPU must not end.
func TestSilentKubelet(t *testing.T) {
	l := newLedger()
	for s := range 400 {
		o := look(float64(s), nil)
		switch {
		case s < 3:
			o.Allocations = []gpu.Allocation{holds(train, 1)}
		case s < 50:
			c := serve
			c.UID = fmt.Sprint("uid-", s)
			o.Processes = []*gpu.Process{process(uint32(s), in(c))}
			fallthrough
		default:
			o.AllocationsKnown = false
		}
		l.Observe(o)
		l.Settle(o.At, unresolved)
	}
	if got := bookOf(l, uuid).Accounts; len(got) != 1 || got[0].Owner != train {
		t.Errorf("%d accounts, want one of train: %+v", len(got), got)
	}
}

// An account must stay open while the kubelet lists an allocation of its owner, even if the pod is no longer live.
func TestStillListed(t *testing.T) {
	dead := holds(train, 1)
	dead.Live = false
	l := newLedger()
	b := ask(t, l, look(0, nil, holds(train, 1)), look(1, nil, holds(train, 1)))
	for s := 2.0; s <= 400; s++ {
		b = ask(t, l, look(s, nil, dead))
	}
	if len(b.Accounts) != 1 || b.Accounts[0].Energy.Sum() != 300_000 {
		t.Errorf("book: %+v, want one account with 300000 mJ", b)
	}
}

// Tidy must drop the process accounts of a lost GPU, because they count towards the limit for all GPUs. If the GPU
// returns, its book must continue. Tidy must drop the book of a replaced GPU.
func TestTidy(t *testing.T) {
	gone := look(0, nil).UUID + "-lost"
	on := func(uuid string, o ledger.Observation) ledger.Observation {
		o.UUID = uuid
		return o
	}
	p, q := process(21, in(train)), process(22, in(serve))
	l := ledger.New(ledger.Config{Tick: time.Second, Retention: time.Minute, MaxProcesses: 1})
	for s := range 3 {
		l.Observe(on(gone, look(float64(s), []*gpu.Process{p})))
		l.Settle(at(float64(s)), unresolved)
	}
	before := bookOf(l, gone)
	if before.Energy == 0 || len(before.Accounts) != 1 || len(before.Accounts[0].Processes) != 1 {
		t.Fatalf("book before the loss: %+v, want energy and one account with one process", before)
	}
	known := true
	tidy := func() { l.Tidy(func(u string) (bool, bool) { return known || u != gone, u != gone }) }
	tidy()
	after := bookOf(l, gone)
	if after.Energy != before.Energy || after.Energy != after.Sum() || len(after.Accounts) != 1 || len(after.Accounts[0].Processes) != 0 {
		t.Errorf("book of the lost GPU: %+v, want the same energy and no process accounts", after)
	}
	if len(before.Accounts[0].Processes) == 0 {
		t.Error("Tidy removed the processes of a published book")
	}
	ask(t, l, look(100, []*gpu.Process{q}), look(100.5, []*gpu.Process{q}))
	tidy()
	if ps := ask(t, l, look(101, []*gpu.Process{q})).Accounts[0].Processes; len(ps) != 1 || ps[0].Folded || ps[0].Energy.Sum() != 300_000 {
		t.Errorf("process accounts of the present GPU: %+v, want one with 300000 mJ", ps)
	}
	l.Observe(on(gone, look(102, nil)))
	l.Observe(on(gone, look(103, nil)))
	l.Settle(at(120), unresolved)
	if b := bookOf(l, gone); b.Energy <= before.Energy || b.Energy != b.Sum() || !b.Opened.Equal(before.Opened) {
		t.Errorf("book after the return: %+v, want more energy and the same opening time", b)
	}
	known = false
	tidy()
	if _, kept := l.State().Books[gone]; kept {
		t.Error("the state keeps the book of a replaced GPU")
	}
}
