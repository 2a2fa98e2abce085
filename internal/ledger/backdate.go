package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The last samples of an interval arrive with the next observation. backdate adds the activity in
// an observation to the earlier intervals that wait for it, and returns the rest of the activity.
// If a process has ended, its samples belong to the time before its end. If the samples begin after
// that end, the process uses the GPU again.
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

// spread divides an activity evenly over its time span. Each waiting interval gets the part of the
// activity that lies in the interval. spread returns the sum of these parts. A part is used as a
// weight when energy is divided. A part also counts as work in its interval, but only if the
// activity covers more than three quarters of the interval. If the process was absent from an
// interval, the interval gets no part.
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

// spreadLate adds the work in an interval to the window of the late energy to which the interval
// contributes. This window is used to divide the late energy. If the interval contributes to no
// late energy, spreadLate does nothing.
func (b *book) spreadLate(iv *interval, u usage) {
	if w := b.lateWindow(iv); w != nil {
		if k, there := w.find(u.ID); there {
			w.processes[k].add(u)
			w.busy = w.busy || u.active
		}
	}
}

// lateWindow returns the window of the late energy to which an interval contributes. If the interval contributes to
// no late energy, lateWindow returns nil.
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

// addLast adds the last activity of an ended process to the waiting intervals in which the process was present. If
// some of this activity lies outside all these intervals, the newest of them gets it.
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

// noteLeft records the processes that were no longer present at a mark, but for which samples may
// still arrive.
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

// countUnsampled adds up the time between the end of the previous samples and the start of the
// current samples, if both are known.
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
