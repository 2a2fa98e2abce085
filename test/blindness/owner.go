package blindness

import (
	"math"
	"slices"
	"time"
)

func (s *Shot) charged(o *Owner, ofPod, ofJob, split string) int64 {
	name := ofPod
	if o.Job {
		name = ofJob
	}
	return s.sum(Series{Name: name, Owner: o.Name, Split: split})
}

func (s *Shot) held(o *Owner) time.Duration {
	return time.Duration(s.charged(o, containerHeld, unitHeld, "")) * time.Millisecond
}

func (s *Shot) active(o *Owner) time.Duration {
	return time.Duration(s.charged(o, containerActive, unitActive, "")) * time.Millisecond
}

func (c *checker) checkOwner(s *Shot, o *Owner) {
	c.checkHeldMore(s, o)
	if total := s.charged(o, containerEnergy, unitEnergy, ""); total > 0 {
		limit := c.energy(o.GPU, c.smear(o.GPU, c.presence(o)).within(span{0, s.At + tick})) + c.twice(o.GPU, s.At) + rounding
		if total > limit {
			c.breaks(rulePresent, o.Name, s.At, "is charged %d mJ, but the GPU used %d mJ while the owner was present", total, limit)
		}
	}
	if alone := s.charged(o, containerEnergy, unitEnergy, "exclusive"); alone > 0 {
		limit := c.energy(o.GPU, c.alone(o).within(span{0, s.At + tick})) + c.unsampled(o, s.At) + rounding
		if alone > limit {
			c.breaks(ruleExclusive, o.Name, s.At, "is charged %d mJ as exclusive, but the GPU used %d mJ while the owner was alone", alone, limit)
		}
	}
	c.checkActive(s, o)
}

// checkActive checks that an owner's held time is not shorter than its active time, if the exporter can detect that the
// owner holds the GPU. The exporter reports held time late while the kubelet does not respond.
func (c *checker) checkActive(s *Shot, o *Owner) {
	known := max(c.learnt(o, o.From+poll+tick+c.slack, false), c.relearnt(o)) + settled
	if c.hidden(hidesPods, everyGPU).wider(0, poll+tick+c.slack).covers(known - settled) {
		known += unsettled
	}
	if known > o.Until { // the owner may have ended before the exporter detected it
		return
	}
	filed := !o.Job || c.hidden(hidesJobs|liesAboutJobs, o.GPU).wider(tick, poll).within(o.life()).length() == 0
	active, held := s.active(o), s.held(o)
	if o.Holds && filed && s.At >= known && active > held {
		c.breaks(ruleActive, o.Name, s.At, "active for %v, held for %v", active, held)
	}
}

// relearnt returns the time at which the pod of an allocation is known again after a restart of the exporter. The
// kubelet's list contains no UIDs, so the pod is known only when /proc shows it.
func (c *checker) relearnt(o *Owner) (at time.Duration) {
	for _, s := range c.forgotten(o) {
		at = max(at, s.to)
	}
	return at
}

// forgotten returns the spans in which a restarted exporter cannot identify the pod of an allocation.
func (c *checker) forgotten(o *Owner) (out spans) {
	hidden := c.hidden(hidesOwners, o.GPU)
	for _, b := range c.blind {
		if shows := hidden.after(b.to); !o.Job && b.what == hidesAll && o.life().covers(b.from) && shows > b.to {
			out = append(out, span{b.from, shows + poll + tick + c.slack})
		}
	}
	return out
}

// presence returns the spans in which an owner may be charged: its lifetime plus the tolerances.
func (c *checker) presence(o *Owner) spans {
	at := o.life().wider(around+c.slack, around+c.slack)
	if o.Holds {
		at.to = o.Until + poll + tick + c.slack
	}
	unseen := c.hidden(hidesOwners|hidesBooks, o.GPU)
	if o.Job {
		unseen = append(unseen, c.hidden(hidesJobs|liesAboutJobs, o.GPU)...)
	}
	for _, w := range union(unseen...) {
		if w.wider(tick, tick).covers(o.Until) {
			at.to = max(at.to, w.to+poll+tick+c.slack)
		}
	}
	return union(at)
}

// alone returns the spans in which the exporter may regard an owner as the only user of its GPU.
func (c *checker) alone(o *Owner) spans {
	return c.smear(o.GPU, c.presence(o).minus(c.others(o)))
}

// unfiled reports whether the exporter may detect a job's work before it can read the prolog's file about the job.
// Until then, it cannot detect that the job holds the GPU.
func (c *checker) unfiled(o *Owner) bool {
	hidden := c.hidden(hidesJobs|liesAboutJobs, o.GPU).wider(tick, poll+tick)
	if !o.Job || hidden.covers(o.From) {
		return o.Job
	}
	return slices.ContainsFunc(c.blind, func(b blindness) bool {
		return b.what == hidesAll && o.life().covers(b.to) && hidden.covers(b.to)
	})
}

// unsampled returns the energy that may be charged as exclusive although other owners use the GPU. The exporter
// considers a context without an allocation only if its process works. The driver's samples in a second may miss a
// small load.
func (c *checker) unsampled(o *Owner, at time.Duration) (sum int64) {
	for i := range c.Owners {
		x := &c.Owners[i]
		if x.Holds && !c.unfiled(x) || x.GPU != o.GPU || x.Name == o.Name || o.Percent == 0 {
			continue
		}
		missed := math.Pow(float64(o.Percent)/float64(o.Percent+x.Percent), samples)
		beside := union(x.life()).within(o.life()).within(span{0, at + tick})
		sum += int64(min(1, 1.5*missed+0.1) * float64(c.energy(o.GPU, beside)))
	}
	return sum
}

// checkHeldMore checks that the held time of an owner is not longer than the true time. If /proc does not show the end
// of a pod, the exporter detects the end in the kubelet's next list.
func (c *checker) checkHeldMore(s *Shot, o *Owner) {
	var limit time.Duration
	if o.Holds {
		limit = o.life().within(span{0, s.At}).length() + poll + tick + c.slack
		for _, w := range c.hidden(hidesPods, o.GPU).minus(spans{always}.minus(c.hidden(hidesOwners, o.GPU))) {
			if w.wider(poll+tick, tick).covers(o.Until) { // no reading showed the end of the owner
				limit += w.to - w.from
			}
		}
	}
	if held := s.held(o); held > limit {
		c.breaks(ruleHeldMore, o.Name, s.At, "is credited with %v of held time, the true time is at most %v", held, limit)
	}
}

// checkHeldLess checks that the last page contains the true held time of an owner, except for time that the exporter
// could not detect.
func (c *checker) checkHeldLess(s *Shot, o *Owner, began time.Duration) {
	if !o.Holds {
		return
	}
	due := union(o.life().within(span{began, s.At - settled - c.slack})).minus(c.unseen(o))
	if held := s.held(o); held < due.length()-poll-tick-c.slack {
		c.breaks(ruleHeldLess, o.Name, s.At, "is credited with %v of held time, the true time is %v", held, due.length())
	}
}

// unseen returns the spans in which the exporter could not detect that an owner held its GPU, because it could not read
// a source when the owner began or ended. If the exporter detected the owner before and after an outage, the owner also
// counts as the holder during the outage.
func (c *checker) unseen(o *Owner) spans {
	var out []span
	begins := append(c.hidden(hidesOwners, o.GPU), c.unread(o.GPU)...)
	ends := begins
	if !o.Context && !o.Job {
		begins = append(begins, c.hidden(hidesPods, o.GPU)...)
	}
	for _, w := range c.hidden(hidesPods, o.GPU) {
		if !o.Job && w.wider(tick, poll+tick).covers(o.From) && o.Until < w.to+poll+tick+c.slack {
			out = append(out, o.life()) // the kubelet never listed the owner
		}
	}
	out = append(out, c.forgotten(o)...)
	known := span{o.From, o.From + poll + tick + c.slack}
	for _, w := range union(begins...) {
		if w.wider(tick, tick).meets(known) {
			out = append(out, span{o.From, w.to + tick})
			known.to = max(known.to, w.to+poll+tick+c.slack)
		}
	}
	for _, w := range union(ends...) {
		if w.wider(tick, tick).covers(o.Until) {
			out = append(out, span{w.from - tick, o.Until})
		}
	}
	if o.Job {
		out = append(out, c.hidden(hidesJobs, o.GPU).wider(tick, poll+tick)...)
	}
	if o.Job && !o.Context {
		out = append(out, c.hidden(liesAboutJobs, o.GPU).wider(tick, poll+tick)...)
	}
	return union(out...)
}
