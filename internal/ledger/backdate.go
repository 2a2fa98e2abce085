package ledger

import (
	"slices"
	"time"
)

// backdate takes out of an observation the activity that belongs to intervals before
// it, which wait for it: the last samples of an interval come with the next look. An
// average over a time is spread evenly over it. Only processes that were seen in an
// earlier interval worked in it.
func (b *book) backdate(o *Observation) {
	b.countUnsampled(o)
	o.Activity = slices.Clone(o.Activity)
	for i := range b.pending {
		iv := &b.pending[i]
		for j := range o.Activity {
			a := &o.Activity[j]
			if _, there := iv.processes[a.Process.ID]; !there {
				continue
			}
			if early := a.Overlap(iv.span()); early > 0 {
				busy := a.Busy * early / a.Len()
				iv.work(a.Process.ID, busy)
				a.Busy, a.From = a.Busy-busy, max(a.From, iv.to.At.Boot)
			}
		}
		iv.sampled = max(iv.sampled, sampledUntil(*o))
	}
}

// countUnsampled notes the time between what the samples covered last and what they
// cover now.
func (b *book) countUnsampled(o *Observation) {
	if !o.ActivityKnown {
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
