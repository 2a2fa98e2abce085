package ledger_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// A leaseholder describes how one pod truly uses the GPU.
type leaseholder struct {
	owner      gpu.Owner
	replicas   int
	from, till int  // first and last second in which the pod held the replicas
	context    bool // set if the pod has a process on the GPU
	busy       int  // the pod works in every busy-th second; 0 means never
}

func (p *leaseholder) holds(s int) bool { return p.from <= s && s <= p.till }

func (p *leaseholder) works(s int) bool {
	return p.holds(s) && p.context && p.busy > 0 && s%p.busy == 0
}

func (p *leaseholder) process(pid int) *gpu.Process { return process(uint32(pid), p.owner) }

// A history describes the true use of one GPU, and the times in which the kubelet or the exporter is down.
type history struct {
	seconds      int
	pods         []leaseholder
	silent, down [2]int // ranges of seconds without the kubelet and without the exporter, excluding the last second
	refresh      int    // the counter changes in every refresh-th second
	unpolled     int    // seconds after a restart in which the exporter has no list of live pods
}

func within(s int, span [2]int) bool { return span[0] <= s && s < span[1] }

// The kubelet does not respond for a second to an hour. In half of the histories the exporter restarts. Pods begin and
// end only while the exporter runs.
func randomHistory(r *rand.Rand) history {
	outage := []int{1, 2, 9, 10, 11, 30, 31, 180, 600, 3600}[r.IntN(10)]
	h := history{seconds: outage + 120, silent: [2]int{40, 40 + outage}, refresh: []int{1, 1, 2, 5, 20}[r.IntN(5)]}
	if r.IntN(2) == 1 {
		from := 20 + r.IntN(outage+20)
		h.down = [2]int{from, from + 1 + r.IntN(60)}
		h.unpolled = r.IntN(10) // fewer than the ten seconds for which the ledger waits
	}
	moment := func() int {
		for {
			// No pod begins or ends in the last ten seconds before the exporter stops. If the kubelet does not respond,
			// these seconds are not settled yet, so the ledger would not record the event.
			if s := 1 + r.IntN(h.seconds-1); s < h.down[0]-11 || s > h.down[1]+h.unpolled+1 {
				return s
			}
		}
	}
	for i := range 2 + r.IntN(3) {
		p := leaseholder{replicas: 1 + r.IntN(3), till: h.seconds, context: r.IntN(3) > 0, busy: r.IntN(3)}
		p.owner = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: fmt.Sprint("pod-", i), UID: fmt.Sprint("uid-", i), Part: "main"}
		switch r.IntN(4) {
		case 0:
			p.till = moment()
		case 1:
			p.from = moment()
			// a process makes a pod visible that the kubelet never listed
			p.context = p.context || within(p.from, h.silent)
		}
		h.pods = append(h.pods, p)
	}
	return h
}

func (h *history) look(s int) ledger.Observation {
	o := look(float64(s), nil)
	if h.refresh > 1 {
		o = count(o, *look(float64(s/h.refresh*h.refresh), nil).Energy)
	}
	o.AllocationsKnown, o.Alive = !within(s, h.silent), map[string]bool{}
	for i := range h.pods {
		p := &h.pods[i]
		if !p.holds(s) {
			continue
		}
		o.Alive[p.owner.UID] = true
		if o.AllocationsKnown {
			a := holds(p.owner, p.replicas)
			a.Sharing = gpu.SharingTimeSlicing
			o.Allocations = append(o.Allocations, a)
		}
		if p.context {
			o.Processes = append(o.Processes, p.process(10+i))
		}
		if p.works(s) {
			o.Activity = append(o.Activity, ledger.Activity{Process: p.process(10 + i), Span: o.Sampled, Busy: 100 * time.Millisecond})
		}
	}
	if h.down[1] > 0 && within(s, [2]int{h.down[1], h.down[1] + h.unpolled}) {
		o.Alive = nil
	}
	return o
}

// held returns the true held time and the true GPU time of a pod.
func (h *history) held(p *leaseholder) (held, gpuTime time.Duration) {
	for s := 1; s <= h.seconds; s++ {
		all := 0
		for i := range h.pods {
			if h.pods[i].holds(s) {
				all += h.pods[i].replicas
			}
		}
		if p.holds(s) {
			held += time.Second
			gpuTime += time.Second * time.Duration(p.replicas) / time.Duration(all)
		}
	}
	return held, gpuTime
}

func (h *history) throughout() bool {
	for _, p := range h.pods {
		if p.from > 0 || p.till < h.seconds {
			return false
		}
	}
	return true
}

// play checks two rules. No energy may become exclusive after the ledger has stopped waiting for the allocations. No
// listed pod may be active for longer than it holds the GPU.
func (h *history) play(t *testing.T) *gpu.Book {
	l := newLedger()
	for s := 0; s <= h.seconds; s++ {
		if within(s, h.down) {
			continue
		}
		if s == h.down[1] && s > 0 {
			l = restarted(t, l)
		}
		before := exclusive(bookOf(l, uuid))
		o := h.look(s)
		l.Observe(o)
		l.Settle(o.At, unresolved)
		if more := exclusive(bookOf(l, uuid)) - before; more > 0 && s > h.silent[0]+1 && within(s, h.silent) {
			t.Fatalf("second %d: %d mJ became exclusive while the kubelet was silent", s, more)
		}
		h.heldWhileActive(t, bookOf(l, uuid), s)
	}
	return bookOf(l, uuid)
}

// A pod that the kubelet listed before second s must not be active for longer than it holds the GPU.
func (h *history) heldWhileActive(t *testing.T, b *gpu.Book, s int) {
	for i := range h.pods {
		p := &h.pods[i]
		a := find(b, gpu.AccountKey{Owner: p.owner})
		if listed := !within(p.from, h.silent) || s >= h.silent[1]; a != nil && listed && a.Active > a.Allocated {
			t.Fatalf("second %d: %+v is active for %v, but held the GPU for %v; history %+v", s, p, a.Active, a.Allocated, h)
		}
	}
}

func exclusive(b *gpu.Book) (sum gpu.Millijoules) {
	if b == nil {
		return 0
	}
	for _, a := range b.Accounts {
		sum += a.Energy[gpu.Exclusive]
	}
	return sum
}

// The held time, the GPU time and the active time must equal the true times.
func TestSilentKubeletTimes(t *testing.T) {
	for seed := range uint64(300) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := randomHistory(rand.New(rand.NewPCG(seed, 39)))
			b := h.play(t)
			var sum time.Duration
			for i := range h.pods {
				p := &h.pods[i]
				held, gpuTime := h.held(p)
				a := find(b, gpu.AccountKey{Owner: p.owner})
				if a == nil {
					if p.till+300 > h.seconds && held > 0 {
						t.Errorf("%+v has no account", p)
					}
					continue
				}
				sum += a.GPUTime
				if off := a.Allocated - held; off.Abs() > time.Second {
					t.Errorf("%+v held the GPU for %v, want %v; history %+v", p, a.Allocated, held, h)
				}
				if a.Active > a.Allocated || a.GPUTime > a.Allocated {
					t.Errorf("%+v: active %v, GPU time %v; want at most the held time %v; history %+v", p, a.Active, a.GPUTime, a.Allocated, h)
				}
				if off := a.GPUTime - gpuTime; h.throughout() && off.Abs() > time.Second {
					t.Errorf("%+v has %v of GPU time, want %v; history %+v", p, a.GPUTime, gpuTime, h)
				}
			}
			if wall := time.Duration(h.seconds) * time.Second; sum > wall {
				t.Errorf("all pods have %v of GPU time in %v; history %+v", sum, wall, h)
			}
		})
	}
}

// An outage of the kubelet must not change the charges. Only the method changes: no charge may be exclusive.
func TestSilentKubeletEnergy(t *testing.T) {
	h := history{seconds: 300, silent: [2]int{40, 220}}
	for i, busy := range []int{0, 1, 0} {
		owner := gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: fmt.Sprint("pod-", i), UID: fmt.Sprint("uid-", i), Part: "main"}
		h.pods = append(h.pods, leaseholder{owner: owner, replicas: 1, till: h.seconds, context: i < 2, busy: busy})
	}
	got := h.play(t)
	h.silent = [2]int{}
	want := h.play(t)
	for i := range want.Accounts {
		g, w := &got.Accounts[i], &want.Accounts[i]
		if g.Energy != w.Energy || g.Allocated != w.Allocated || g.GPUTime != w.GPUTime || g.Allocated != 300*time.Second {
			t.Errorf("%s: %+v, want as while the kubelet responds %+v", g.Name, g, w)
		}
	}
}

// A pod that is alone on a GPU while the kubelet does not respond must pay by allocation, because another pod may also
// hold the GPU.
func TestSilentKubeletAlone(t *testing.T) {
	for name, held := range map[string][]gpu.Allocation{"held before": {holds(train, 1)}, "not held before": nil} {
		t.Run(name, func(t *testing.T) {
			p := []*gpu.Process{process(21, in(train))}
			l := newLedger()
			ask(t, l, look(0, p, held...), look(1, p, held...))
			for s := 2.0; s <= 60; s++ {
				o := look(s, p)
				o.AllocationsKnown, o.Alive = false, map[string]bool{train.UID: true}
				ask(t, l, active(o, worked(p[0], 500)))
			}
			a := ask(t, l).Accounts[0]
			if want := (gpu.ByMethod{gpu.Exclusive: 300_000, gpu.Allocated: 49 * 300_000}); a.Energy != want {
				t.Errorf("charged %v, want %v", a.Energy, want)
			}
		})
	}
}

func restarted(t *testing.T, l *ledger.Ledger) *ledger.Ledger {
	t.Helper()
	return ledger.Restore(ledger.Config{Tick: time.Second, Retention: 5 * time.Minute}, saved(t, l))
}
