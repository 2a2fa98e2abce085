package ledger_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// The tensor cores are active for a quarter of the time. The memory is active for half of the time.
func profiled(o ledger.Observation, instance string, from, to float64) ledger.Observation {
	span := gpu.Span{From: at(from).Boot, To: at(to).Boot}
	o.Profiles = append(o.Profiles, ledger.Profile{GPUInstance: instance, Span: span, Tensor: span.Len() / 4, DRAM: span.Len() / 2})
	return o
}

// work returns the sum of the profiles from profiled over the given number of seconds.
func work(seconds time.Duration) gpu.Profiled {
	return gpu.Profiled{Time: seconds * time.Second, Tensor: seconds * time.Second / 4, DRAM: seconds * time.Second / 2}
}

// A profile must count only for an owner that was alone on the GPU for the whole time between the samples.
func TestProfiled(t *testing.T) {
	p, q := process(21, train), process(31, serve)
	own := func(s float64) ledger.Observation { return look(s, []*gpu.Process{p}, holds(train, 1)) }
	held := func(s float64) ledger.Observation { return look(s, nil, holds(train, 1)) }
	both := func(s float64) ledger.Observation {
		return look(s, []*gpu.Process{p, q}, holds(train, 2), holds(serve, 2))
	}
	idle := func(s float64) ledger.Observation { return look(s, []*gpu.Process{q}, holds(train, 1)) }
	works := func(s float64) ledger.Observation { return active(idle(s), worked(q, 100)) }
	// later adds a profile of the seconds 1.5 to 5.5, and then repeats it.
	later := func(of func(float64) ledger.Observation, then func(float64) ledger.Observation) (all []ledger.Observation) {
		for s := range 5 {
			all = append(all, of(float64(s)))
		}
		return append(all, of(5), profiled(then(6), "", 1.5, 5.5), profiled(then(7), "", 1.5, 5.5), then(8))
	}
	changed := func(change func(*ledger.Observation)) func(float64) ledger.Observation {
		return func(s float64) ledger.Observation {
			o := own(s)
			if s == 3 {
				change(&o)
			}
			return o
		}
	}
	tests := []struct {
		name         string
		looks        []ledger.Observation
		train, serve gpu.Profiled
	}{
		{"one owner", later(own, own), work(4), gpu.Profiled{}},
		{"a holder without a process", later(held, held), work(4), gpu.Profiled{}},
		{"a user without an allocation", later(func(s float64) ledger.Observation { return look(s, []*gpu.Process{q}) }, func(s float64) ledger.Observation { return look(s, []*gpu.Process{q}) }), gpu.Profiled{}, work(4)},
		{"two owners", later(both, both), gpu.Profiled{}, gpu.Profiled{}},
		{"another owner works beside the holder", later(works, works), gpu.Profiled{}, gpu.Profiled{}},
		{"another owner at the end of the profile", later(own, both), gpu.Profiled{}, gpu.Profiled{}},
		{"another owner in between", later(changed(func(o *ledger.Observation) { *o = both(3) }), own), gpu.Profiled{}, gpu.Profiled{}},
		{"unknown allocations in between", later(changed(func(o *ledger.Observation) { o.Allocations, o.AllocationsKnown = nil, false }), own), work(4), gpu.Profiled{}},
		{"an unknown list of processes in between", later(changed(func(o *ledger.Observation) { o.Processes, o.ProcessesKnown = nil, false }), own), gpu.Profiled{}, gpu.Profiled{}},
		{"a profile before the first reading", []ledger.Observation{own(0), profiled(own(1), "", -1, 1), own(2)}, gpu.Profiled{}, gpu.Profiled{}},
		{"an interval without an observation", []ledger.Observation{own(0), own(1), profiled(own(20), "", 1, 20), profiled(own(21), "", 20, 21), own(22)}, work(1), gpu.Profiled{}},
		{"values above the length of the profile", []ledger.Observation{own(0), own(1), impossible(own(2)), own(3)}, gpu.Profiled{}, gpu.Profiled{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := ask(t, newLedger(), tt.looks...)
			if diff := cmp.Diff([]gpu.Profiled{tt.train, tt.serve}, []gpu.Profiled{accountOf(b, train).Profiled, accountOf(b, serve).Profiled}); diff != "" {
				t.Errorf("profiled (-want +got):\n%s", diff)
			}
		})
	}
}

func impossible(o ledger.Observation) ledger.Observation {
	span := gpu.Span{From: at(1).Boot, To: at(2).Boot}
	o.Profiles = []ledger.Profile{{Span: span, Tensor: 2 * time.Second}, {Span: span, DRAM: 2 * time.Second}, {Span: span, Tensor: -1}, {Span: gpu.Span{From: span.To, To: span.From}}}
	return o
}

// Each MIG instance has its own profile. If an instance has two owners, no owner must get its profile. When MIG mode
// ends, the owner of the whole GPU must get the profile of the GPU.
func TestProfiledInstances(t *testing.T) {
	p, q := process(21, train), process(31, serve)
	l := newLedger()
	var b *gpu.Book
	for s := 0.0; s < 8; s++ {
		o := onInstance(look(s, []*gpu.Process{p, q}, holdsInstance(train, "1"), holdsInstance(serve, "2")), "")
		o.Places = map[gpu.ProcessID]string{p.ID: "1", q.ID: "2"}
		if s >= 5 {
			o.Places[p.ID] = "2" // second owner of the instance
		}
		if s > 0 {
			o = profiled(profiled(o, "1", s-1, s), "2", s-1, s)
		}
		b = ask(t, l, o)
	}
	// Until 4 s each owner is alone on its instance. Then the process of the first owner moves to instance 2, so
	// instance 2 has two owners. The first owner still holds instance 1, which is idle.
	got := []gpu.Profiled{
		account(b, gpu.AccountKey{GPUInstance: "1", Owner: train}).Profiled, account(b, gpu.AccountKey{GPUInstance: "2", Owner: serve}).Profiled,
	}
	if diff := cmp.Diff([]gpu.Profiled{work(7), work(4)}, got); diff != "" {
		t.Errorf("profiled (-want +got):\n%s", diff)
	}
	ask(t, l, look(8, []*gpu.Process{p}, holds(train, 1)))
	for s := 9.0; s < 11; s++ {
		b = ask(t, l, profiled(look(s, []*gpu.Process{p}, holds(train, 1)), "", s-1, s))
	}
	if diff := cmp.Diff(work(2), account(b, gpu.AccountKey{Owner: train}).Profiled); diff != "" {
		t.Errorf("profiled on the whole GPU (-want +got):\n%s", diff)
	}
}

// A new exporter process must continue the profiled work only if it profiles GPUs. Otherwise it must drop the profiled
// work: a value that no longer grows would suggest that the owner does no work. State files of earlier versions contain
// no profiled work.
func TestProfiledRestart(t *testing.T) {
	p := process(21, train)
	own := func(s float64) ledger.Observation {
		return profiled(look(s, []*gpu.Process{p}, holds(train, 1)), "", s-1, s)
	}
	l := newLedger()
	ask(t, l, own(0), own(1), own(2), own(3))
	cfg := ledger.Config{Tick: time.Second, Retention: 5 * time.Minute, Profiling: true}
	next := ledger.Restore(cfg, saved(t, l))
	if got := accountOf(bookOf(next, uuid), train).Profiled; got != work(3) {
		t.Errorf("after a restart: %+v, want %+v", got, work(3))
	}
	if got := accountOf(ask(t, next, own(5), own(6)), train).Profiled; got != work(4) {
		t.Errorf("two seconds later: %+v, want %+v", got, work(4))
	}
	cfg.Profiling = false
	if got := accountOf(bookOf(ledger.Restore(cfg, saved(t, next)), uuid), train).Profiled; got != (gpu.Profiled{}) {
		t.Errorf("without profiling: %+v", got)
	}
	if got := accountOf(bookOf(next, uuid), train).Profiled; got != work(4) {
		t.Errorf("the published state changed to %+v", got)
	}
	s := next.State()
	s.Books[uuid].Accounts[0].Profiled.DRAM = -1
	if s.Check(time.Hour*2) == nil {
		t.Error("a negative amount is accepted")
	}
}

// profiling contains the profile of a board as the driver measures it.
type profiling struct {
	last    map[string]time.Duration // time of the last sample of each instance
	newest  []ledger.Profile
	waiting []ledger.Profile // profiles that are not settled yet
	// other contains, by pod, the end of the last settled span in which the pod may not have been alone.
	other map[gpu.Owner]time.Duration
}

func (b *board) profile(o *ledger.Observation, sight byte) {
	r := &b.profiling
	if sight%4 == 0 {
		instances := []string{""}
		if b.mig != nil {
			instances = nil
			for _, i := range b.mig.Instances {
				instances = append(instances, i.ID)
			}
		}
		last := r.last
		r.last, r.newest = make(map[string]time.Duration), nil
		for _, i := range instances {
			r.last[i] = o.At.Boot
			if from, known := last[i]; known && from < o.At.Boot {
				span := gpu.Span{From: from, To: o.At.Boot}
				r.newest = append(r.newest, ledger.Profile{GPUInstance: i, Span: span, Tensor: span.Len() / 256 * time.Duration(sight), DRAM: span.Len() / 3})
			}
		}
		r.waiting = append(r.waiting, r.newest...)
	}
	o.Profiles = r.newest
}

// Profiled work must never decrease. The owners of a board must not get more work than the board's profile contains. A
// pod may get the work of a whole board only if it was alone on the board.
func (m *machine) profiles(b *board, now *gpu.Book, done []span) {
	m.t.Helper()
	most, alone := b.profiling.settle(done, m.owner)
	for i := range now.Accounts {
		a, was := &now.Accounts[i], gpu.Profiled{}
		if old := find(b.book, a.AccountKey); old != nil {
			was = old.Profiled
		}
		more := gpu.Profiled{Time: a.Profiled.Time - was.Time, Tensor: a.Profiled.Tensor - was.Tensor, DRAM: a.Profiled.DRAM - was.DRAM}
		if min(more.Time, more.Tensor, more.DRAM) < 0 || max(more.Tensor, more.DRAM) > more.Time || a.Profiled.Time > m.now-time.Hour {
			m.t.Fatalf("profiled work %+v after %+v", a.Profiled, was)
		}
		if a.GPUInstance == "" && more.Time > alone[a.Group()] {
			m.t.Fatalf("%v got %+v, but was alone on the board for %v of the profiles", a.Owner, more, alone[a.Group()])
		}
		left := most[a.GPUInstance]
		left = gpu.Profiled{Time: left.Time - more.Time, Tensor: left.Tensor - more.Tensor, DRAM: left.DRAM - more.DRAM}
		if most[a.GPUInstance] = left; min(left.Time, left.Tensor, left.DRAM) < 0 {
			m.t.Fatalf("the owners of instance %q got more than its profile: %+v", a.GPUInstance, now)
		}
	}
}

// settle removes the settled profiles. most is the sum of the removed profiles by instance. alone is, by pod, the total
// time of the profiles in which the pod was alone on the board.
func (r *profiling) settle(done []span, owner ledger.Owners) (most map[string]gpu.Profiled, alone map[gpu.Owner]time.Duration) {
	most, alone = make(map[string]gpu.Profiled), make(map[gpu.Owner]time.Duration)
	if r.other == nil {
		r.other = make(map[gpu.Owner]time.Duration)
	}
	for _, s := range done {
		for _, c := range containers {
			if s.gap() || !s.sole(c.Group(), owner) {
				r.other[c.Group()] = s.to.at
			}
		}
		for len(r.waiting) > 0 && r.waiting[0].To <= s.to.at {
			p := r.waiting[0]
			r.waiting = r.waiting[1:]
			most[p.GPUInstance] = most[p.GPUInstance].Plus(gpu.Profiled{Time: p.Len(), Tensor: p.Tensor, DRAM: p.DRAM})
			times := make(map[gpu.Owner]time.Duration)
			for _, c := range containers {
				if p.GPUInstance == "" && r.other[c.Group()] <= p.From {
					times[c.Group()] = p.Len()
				}
			}
			for group, took := range times {
				alone[group] += took
			}
		}
	}
	return most, alone
}
