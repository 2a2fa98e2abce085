package ledger

import (
	"slices"
	"time"
)

// backdate gives intervals before an observation, which wait for it, what they have of
// its activity, and returns what is left: the last samples of an interval come with the
// next look. An average over a time is spread evenly over it, so this says nothing of
// whether there was work in an interval, only by what to divide its energy. Processes
// that were not seen in an interval have no part of it.
func (b *book) backdate(o *Observation) []Activity {
	left := slices.Clone(o.Activity)
	for i := range b.pending {
		iv := &b.pending[i]
		for j := range left {
			a := &left[j]
			if _, there := iv.processes[a.Process.ID]; !there {
				continue
			}
			if early := a.Overlap(iv.span()); early > 0 {
				busy := a.Busy * early / a.Len()
				iv.activity[a.Process.ID] += busy
				a.Busy, a.From = a.Busy-busy, max(a.From, iv.to.At.Boot)
			}
		}
		iv.sampled = max(iv.sampled, sampledUntil(*o))
	}
	return left
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
