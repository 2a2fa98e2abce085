package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// backdate gives intervals before an observation, which wait for it, what they have of
// its activity, and returns the rest: the last samples of an interval come with the
// next look. A process that left meanwhile did all its work before that; if the samples
// begin only afterwards it has come back.
func (b *book) backdate(o *Observation, list []*gpu.Process) []Activity {
	rest := make([]Activity, 0, len(o.Activity))
	for _, a := range o.Activity {
		listed := func(p *gpu.Process) bool { return p.ID == a.Process.ID }
		if left, gone := b.left[a.Process.ID]; gone && a.From < left && !slices.ContainsFunc(list, listed) {
			b.bury(a, left)
			continue
		}
		a.Busy -= b.spread(a)
		rest = append(rest, a)
	}
	for i := range b.pending {
		b.pending[i].sampled = max(b.pending[i].sampled, sampledUntil(*o))
	}
	return rest
}

// spread gives waiting intervals their part of an activity, which is spread evenly over
// its time, and returns the sum of these. That is right to divide energy by, but proves
// no work in an interval, unless it is nearly all of it. A process that was not seen in
// an interval did not work there.
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
		iv.processes[k].did(a.presence(busy, worked))
		iv.busy = iv.busy || worked
	}
	return spent
}

// bury gives the last activity of a process that has left to the intervals that it was
// in and that still wait.
func (b *book) bury(a Activity, left time.Duration) {
	a.To = min(a.To, left)
	a.Busy -= b.spread(a)
	for i := len(b.pending) - 1; i >= 0; i-- {
		iv := &b.pending[i]
		if k, there := iv.find(a.Process.ID); there {
			iv.processes[k].did(a.presence(a.Busy, true))
			iv.busy = true
			return
		}
	}
}

// noteLeft remembers which processes had left at a mark, for as long as samples of them
// may come.
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

// countUnsampled notes the time between what the samples covered last and what they
// cover now, if they were known then.
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
