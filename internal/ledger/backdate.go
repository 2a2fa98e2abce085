package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The driver reports the last samples of an interval only after the interval has ended. backdate adds these samples to
// the intervals that are not settled yet, and returns the other samples.
//
// The samples of a process that has left the GPU count for the time before the process left. If a sample begins after
// this time, the process has returned to the GPU.
func (b *book) backdate(o *Observation, list []*gpu.Process) []Activity {
	rest := make([]Activity, 0, len(o.Activity))
	for _, a := range o.Activity {
		listed := func(p *gpu.Process) bool { return p.ID == a.Process.ID }
		if left, gone := b.left[a.Process.ID]; gone && a.From < left && !slices.ContainsFunc(list, listed) {
			b.addLast(a, left)
			continue
		}
		a.Busy -= b.spread(a)
		rest = append(rest, a)
	}
	for i := range b.pending {
		iv := &b.pending[i]
		iv.sampled = max(iv.sampled, sampledUntil(*o))
		if iv.late != nil {
			iv.late.sampled = iv.sampled
		}
	}
	return rest
}

// spread divides an activity evenly over its time span. If the process was present in a pending interval, this interval
// gets the busy time of the overlap. spread returns the sum of these busy times. The process counts as active in an
// interval only if the activity covers more than three quarters of the interval.
func (b *book) spread(a Activity) (spent time.Duration) {
	for i := range b.pending {
		iv := &b.pending[i]
		early := a.Overlap(iv.span())
		k, there := iv.find(a.Process.ID)
		if !there || early == 0 {
			continue
		}
		busy := time.Duration(float64(a.Busy) * float64(early) / float64(a.Len()))
		spent += busy
		worked := 4*early > 3*iv.span().Len()
		iv.processes[k].add(a.usage(busy, worked))
		iv.busy = iv.busy || worked
		b.spreadLate(iv, a.usage(busy, worked))
	}
	return spent
}

// spreadLate also adds the work to the window of late energy, because late energy covers several intervals and records
// their work separately.
func (b *book) spreadLate(iv *interval, u usage) {
	if w := b.lateWindow(iv); w != nil {
		if k, there := w.find(u.ID); there {
			w.processes[k].add(u)
			w.busy = w.busy || u.active
		}
	}
}

// lateWindow returns nil if no late energy covers the interval.
func (b *book) lateWindow(iv *interval) *window {
	for i := range b.pending {
		if late := b.pending[i].late; late != nil && late.span().Overlap(iv.span()) > 0 {
			return &late.window
		}
	}
	if b.still != nil && !b.still.long && iv.from.At.Boot >= b.still.from.At.Boot {
		return &b.still.seen
	}
	return nil
}

// addLast divides the last activity of a process that left the GPU. Each pending interval in which the process was
// present gets the busy time of the overlap. The newest of these intervals also gets the remaining busy time.
func (b *book) addLast(a Activity, left time.Duration) {
	a.To = min(a.To, left)
	a.Busy -= b.spread(a)
	for i := len(b.pending) - 1; i >= 0; i-- {
		iv := &b.pending[i]
		if k, there := iv.find(a.Process.ID); there {
			iv.processes[k].add(a.usage(a.Busy, true))
			iv.busy = true
			b.spreadLate(iv, a.usage(a.Busy, true))
			return
		}
	}
}

// noteLeft stores when processes left the GPU, because the driver may still report samples of their work.
func (b *book) noteLeft(m Mark) {
	maps.DeleteFunc(b.left, func(id gpu.ProcessID, at time.Duration) bool {
		return m.At.Boot-at > settleTimeout || m.has(id)
	})
	if b.last == nil || !m.listed {
		return
	}
	for _, id := range b.last.Processes {
		if !m.has(id) {
			b.left[id] = m.At.Boot
		}
	}
}

func (b *book) countUnsampled(o *Observation) {
	if !o.ActivityKnown {
		b.sampled = 0
		return
	}
	if b.Unsampled == nil {
		b.Unsampled = new(time.Duration(0))
	}
	if lost := o.Sampled.From - b.sampled; b.sampled > 0 && lost > 0 {
		b.Unsampled = new(*b.Unsampled + lost)
	}
	b.sampled = o.Sampled.To
}
