package ledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// One pod is idle, and the other pod works in each second. Each pod holds one replica for the whole time.
func twoHolders(seconds int) []leaseholder {
	return []leaseholder{{owner: train, replicas: 1, till: seconds}, {owner: serve, replicas: 1, till: seconds, context: true, busy: 1}}
}

// The exporter restarts while the kubelet does not respond. It then has no list of live pods for some time. A working
// pod must never be active for longer than it holds the GPU. If the list arrives within ten seconds, the first readings
// are not settled yet. An idle pod must then have held the GPU in all settled time.
func TestRestartInOutage(t *testing.T) {
	for _, unpolled := range []int{0, 1, 3, 9, 10, 11, 15, 60} {
		t.Run(fmt.Sprint(unpolled), func(t *testing.T) {
			h := history{seconds: 300, silent: [2]int{40, 220}, down: [2]int{100, 107}, unpolled: unpolled, pods: twoHolders(300)}
			l := newLedger()
			for s := 0; s <= h.seconds; s++ {
				if within(s, h.down) {
					continue
				}
				if s == h.down[1] {
					l = restarted(t, l)
				}
				o := h.look(s)
				l.Observe(o)
				l.Settle(o.At, unresolved)
				b := bookOf(l, uuid)
				h.heldWhileActive(t, b, s)
				settled := b.Settled.Sub(at(0))
				for _, a := range b.Accounts {
					if unpolled < 10 && a.Allocated != settled {
						t.Fatalf("second %d: %s held the GPU for %v of the settled %v", s, a.Name, a.Allocated, settled)
					}
				}
			}
			var sum time.Duration
			for _, a := range bookOf(l, uuid).Accounts {
				sum += a.GPUTime
				if a.Allocated != 300*time.Second || unpolled < 10 && a.GPUTime != 150*time.Second {
					t.Errorf("%s: held %v, GPU time %v; want 5m0s and 2m30s", a.Name, a.Allocated, a.GPUTime)
				}
			}
			if sum != 300*time.Second {
				t.Errorf("%v of GPU time in 5m0s", sum)
			}
		})
	}
}

// A list of live pods that arrives some seconds after the first readings must not change the book. This must also be
// true if the counter does not change in these seconds.
func TestListAfterReadings(t *testing.T) {
	for _, refresh := range []int{1, 2, 3, 5} {
		h := history{seconds: 300, silent: [2]int{40, 220}, down: [2]int{100, 107}, refresh: refresh, pods: twoHolders(300)}
		want := h.play(t)
		for h.unpolled = 1; h.unpolled < 10; h.unpolled++ {
			if diff := cmp.Diff(want, h.play(t)); diff != "" {
				t.Errorf("refreshed every %d s, list after %d s (-at once +later):\n%s", refresh, h.unpolled, diff)
			}
		}
	}
}

// At a second restart, readings from before the first list of live pods are not settled yet. The restart must not
// interrupt the held time.
func TestTwoRestartsInOutage(t *testing.T) {
	for end := 108; end < 125; end++ { // last second before the second restart
		h := history{seconds: 200, silent: [2]int{40, 400}, down: [2]int{100, 107}, unpolled: 3, pods: twoHolders(200)}
		l := newLedger()
		for s := 0; s <= h.seconds; s++ {
			switch {
			case within(s, h.down), end < s && s < 130:
				continue
			case s == h.down[1], s == 130:
				l = restarted(t, l)
			}
			o := h.look(s)
			l.Observe(o)
			l.Settle(o.At, unresolved)
		}
		b := bookOf(l, uuid)
		for _, a := range b.Accounts {
			if settled := b.Settled.Sub(at(0)); a.Allocated != settled || a.GPUTime != settled/2 {
				t.Errorf("restart after second %d: %s held %v, GPU time %v of the settled %v", end, a.Name, a.Allocated, a.GPUTime, settled)
			}
		}
	}
}

// If the first list of live pods after a restart does not contain a pod, the pod must not hold the GPU after the
// restart. If the list contains the pod, the pod must pay for the gap, even if the counter did not change around the
// restart.
func TestLivePodsAfterRestart(t *testing.T) {
	for _, alive := range []bool{false, true} {
		for _, frozen := range []bool{false, true} {
			t.Run(fmt.Sprintf("alive %v, frozen %v", alive, frozen), func(t *testing.T) {
				var p []*gpu.Process
				if alive {
					p = []*gpu.Process{process(21, in(train))}
				}
				l := newLedger()
				own := []*gpu.Process{process(21, in(train))}
				ask(t, l, look(0, own, holds(train, 1)), look(1, own, holds(train, 1)))
				l = restarted(t, l)
				for s := 60.0; s <= 90; s++ {
					o := look(s, p)
					if frozen && s < 62 {
						o = count(o, *look(1, nil).Energy)
					}
					if o.AllocationsKnown = false; s > 62 {
						o.Alive = map[string]bool{train.UID: alive}
					}
					ask(t, l, o)
				}
				a := bookOf(l, uuid).Accounts[0]
				want := time.Second
				if alive {
					want = 80 * time.Second
				}
				if a.Allocated != want || a.Energy.Sum() != gpu.Millijoules(want.Seconds()*300_000) {
					t.Errorf("held %v, charged %d mJ; want %v and 300 W", a.Allocated, a.Energy.Sum(), want)
				}
			})
		}
	}
}

// A job begins and ends while the kubelet does not respond. The exporter reads the job's name five seconds after it
// observed the first process. From then on, the job must hold the GPU in each settled second. An idle pod that also
// holds the GPU, or a restart, must not change this.
func TestUnitsInOutage(t *testing.T) {
	job := gpu.Owner{Kind: gpu.OwnerUnit, Scope: "slurm", Name: "4711", UID: "slurm/4711"}
	for _, restart := range []int{0, 70, 86} {
		t.Run(fmt.Sprint(restart), func(t *testing.T) {
			h := history{seconds: 150, silent: [2]int{20, 120}, pods: []leaseholder{{owner: train, replicas: 1, till: 150}}}
			l := newLedger()
			for s := 0; s <= h.seconds; s++ {
				if s == restart {
					l = restarted(t, l)
				}
				o := h.look(s)
				if 35 <= s && s < 90 {
					o.Processes = append(o.Processes, process(9, job))
					o = active(o, worked(o.Processes[0], 500))
				}
				if 40 <= s && s < 90 {
					o.Allocations = append(o.Allocations, holds(job, 1))
					o.Alive[job.UID] = true
				}
				if restart > 0 && s >= restart && s < restart+6 {
					o.Alive = nil
				}
				l.Observe(o)
				l.Settle(o.At, unresolved)
				b := bookOf(l, uuid)
				a := find(b, gpu.AccountKey{Owner: job})
				if s < 40 || s >= restart && s < restart+10 {
					continue
				}
				if a == nil {
					t.Fatalf("second %d: the job has no account", s)
				}
				if b.Settled.Sub(at(40)) < 0 {
					continue
				}
				if want := min(b.Settled.Sub(at(34)), 55*time.Second); a.Allocated != want || a.Active > a.Allocated {
					t.Fatalf("second %d: held %v, active %v; want %v", s, a.Allocated, a.Active, want)
				}
				if a.Energy[gpu.Exclusive] != 0 {
					t.Fatalf("second %d: %v are charged, want none exclusive", s, a.Energy)
				}
			}
			pod := find(bookOf(l, uuid), gpu.AccountKey{Owner: train})
			if pod.Allocated != 150*time.Second {
				t.Errorf("the pod held %v, want 2m30s", pod.Allocated)
			}
			a := find(bookOf(l, uuid), gpu.AccountKey{Owner: job})
			if half := 25 * time.Second; a.GPUTime < half || a.GPUTime+pod.GPUTime != 150*time.Second {
				t.Errorf("GPU time %v and %v, want at least %v for the job, and 2m30s in total", a.GPUTime, pod.GPUTime, half)
			}
		})
	}
}

// A job that began while the exporter was down must get no time from before the exporter's start, even if the other
// holders are unknown.
func TestUnitSinceGap(t *testing.T) {
	job := gpu.Owner{Kind: gpu.OwnerUnit, Scope: "slurm", Name: "4711", UID: "slurm/4711"}
	h := history{silent: [2]int{15, 100}, pods: []leaseholder{{owner: train, replicas: 1, till: 121}}}
	l := newLedger()
	for s := range 121 {
		if within(s, [2]int{20, 60}) {
			continue
		}
		if s == 60 {
			l = restarted(t, l)
		}
		o := h.look(s)
		if s >= 60 {
			o.Processes = append(o.Processes, process(9, job))
			o.Allocations = append(o.Allocations, holds(job, 1))
			o.Alive[job.UID] = true
		}
		ask(t, l, o)
	}
	for owner, want := range map[gpu.Owner]time.Duration{job: time.Minute, train: 2 * time.Minute} {
		if a := find(bookOf(l, uuid), gpu.AccountKey{Owner: owner}); a == nil || a.Allocated != want {
			t.Errorf("%s: %+v, want %v held", owner.Name, a, want)
		}
	}
}

// A pod begins after the kubelet's last list and works for ten seconds. Then the driver reports neither processes nor
// samples for some seconds. When the kubelet lists the pod, the pod must get the whole time since it began.
func TestUnlistedSinceList(t *testing.T) {
	for dark := range 15 {
		l := newLedger()
		p := process(9, train)
		for s := range 41 {
			o := look(float64(s), nil)
			switch {
			case s > 10 && s <= 20+dark:
				o.ProcessesKnown = false
			case s > 20+dark:
				o.Processes = []*gpu.Process{p}
			}
			if s > 10 && s <= 20 {
				o = active(o, worked(p, 200))
			}
			if s >= 38 {
				o.Allocations = []gpu.Allocation{holds(train, 1)}
			}
			ask(t, l, o)
		}
		a := find(bookOf(l, uuid), gpu.AccountKey{Owner: train})
		if want := time.Duration(30-dark) * time.Second; a.Allocated < want || a.Active > a.Allocated {
			t.Errorf("%d seconds without processes: held %v, active %v, want at least %v", dark, a.Allocated, a.Active, want)
		}
	}
}

// A job begins alone on the GPU while the kubelet does not respond. Its times must begin with its first process, even
// if the exporter reads the job's name later. They must not include earlier seconds that still wait for the kubelet.
func TestUnitAloneInOutage(t *testing.T) {
	job := gpu.Owner{Kind: gpu.OwnerUnit, Scope: "slurm", Name: "4711", UID: "slurm/4711"}
	for _, tt := range []struct {
		name                    string
		returns, process, filed int
		want                    time.Duration
	}{
		{"file after the first process", 120, 35, 40, 116 * time.Second},
		{"begins when the kubelet returns", 56, 151, 52, 99 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := history{silent: [2]int{20, tt.returns}}
			l := newLedger()
			for s := range 151 {
				o := h.look(s)
				if s >= tt.process {
					o.Processes = []*gpu.Process{process(9, job)}
				}
				if s >= tt.filed {
					o.Allocations, o.Alive[job.UID] = []gpu.Allocation{holds(job, 1)}, true
				}
				ask(t, l, o)
			}
			a := find(bookOf(l, uuid), gpu.AccountKey{Owner: job})
			if a.Allocated != tt.want || a.GPUTime != tt.want || a.Energy.Sum() != gpu.Millijoules(tt.want.Seconds()*300_000) {
				t.Errorf("held %v, GPU time %v, charged %v; want %v and 300 W", a.Allocated, a.GPUTime, a.Energy, tt.want)
			}
		})
	}
}
