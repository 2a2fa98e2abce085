package blindness

import (
	"slices"
	"time"
)

// A truth derives the true state from the schedule alone.
type truth struct {
	*Play
	slack time.Duration
}

// energy returns the energy that a GPU used in the given spans, in millijoules. The GPU draws its constant power. Each
// process draws its own power while it works.
func (t *truth) energy(g int, in spans) int64 {
	watts := float64(t.GPUs[g].Floor) * in.length().Seconds()
	for i := range t.Owners {
		o := &t.Owners[i]
		if o.GPU == g && o.works() {
			at := in.within(o.life()).minus(union(t.unloaded...))
			watts += float64(o.Watts*o.Percent) / 100 * at.length().Seconds()
		}
	}
	return int64(watts * 1000)
}

func (p *Play) hidden(what hides, g int) spans {
	var out []span
	for _, b := range p.blind {
		if b.what&what != 0 && (b.gpu == everyGPU || g == everyGPU || b.gpu == g) {
			out = append(out, b.span)
		}
	}
	return union(out...)
}

func (p *Play) by(kind string, g int) spans {
	var out []span
	for _, b := range p.blind {
		if b.by == kind && b.gpu == g {
			out = append(out, b.span)
		}
	}
	return union(out...)
}

func (a spans) covers(t time.Duration) bool {
	return slices.ContainsFunc(a, func(s span) bool { return s.covers(t) })
}

// unread returns the spans without a complete reading of a GPU, because its processes or its energy were unknown. The
// exporter reads a lost GPU again only after a pause. After a restart, the exporter continues from the last interval in
// the saved state, as soon as it can read the boot id.
func (t *truth) unread(g int) spans {
	var lost []span
	waits := union(append(t.hidden(hidesPods|hidesContexts|hidesOwners, g), span{0, starting + poll})...)
	for _, b := range t.blind {
		if b.what != hidesAll {
			continue
		}
		for _, s := range t.hidden(hidesBooks, g) {
			if s.meets(b.wider(tick, tick)) {
				b.from, b.to = min(b.from, s.from), max(b.to, s.to)
			}
		}
		if waits.covers(b.from) {
			b.from -= unsettled + t.slack
		}
		b.to = t.hidden(hidesBoot, g).after(b.to)
		lost = append(lost, b.span)
	}
	for _, b := range t.blind {
		if b.what&hidesGPU == hidesGPU && (b.gpu == everyGPU || b.gpu == g) {
			if b.by == gpuLost {
				b.to += retry
			}
			lost = append(lost, b.span)
		}
	}
	return union(lost...)
}

// smeared returns the spans in which the counter was not read or did not change. The ledger may count the energy of
// such a span as one amount. Then it cannot divide the energy at a change of owners within the span.
func (t *truth) smeared(g int) spans {
	all := append(t.hidden(hidesEnergy|dropsEnergy, g), t.unread(g)...)
	return union(union(all...).wider(around+t.slack, settled+latest+t.slack)...)
}

// latest is the maximum delay of an energy counter in a schedule.
const latest = 6 * time.Second

// smear adds the smeared spans that overlap a set. The ledger may charge the whole energy of such a span to a moment of
// the set.
func (t *truth) smear(g int, in spans) spans {
	return union(append(slices.Clone(in), t.smeared(g).meeting(in)...)...)
}

// noticed returns the spans in which the exporter could detect that an owner held or used its GPU, minus the
// tolerances.
func (t *truth) noticed(o *Owner) spans {
	if !o.Holds && !o.works() {
		return nil
	}
	known := span{o.From + around + t.slack, o.Until - around - t.slack}
	if !o.works() {
		known.from = o.From + poll + tick + t.slack
	}
	if o.From == 0 {
		known.from = min(known.from, poll+starting+t.slack)
	}
	known.from = t.learnt(o, known.from, o.works())
	if !o.works() && !o.Job {
		known.from = min(known.from, t.suspected(o))
	}
	for _, w := range t.unread(o.GPU) {
		if w.wider(tick, tick).covers(o.Until) {
			known.to = min(known.to, w.from-around-t.slack)
		}
	}
	out := union(known)
	if o.Job && !o.works() { // the prolog's files are the only source for this job
		out = out.minus(t.hidden(hidesJobs|liesAboutJobs, o.GPU).wider(tick, poll+around+t.slack))
	}
	return out
}

// hiddenWith returns the kinds of data that hide the allocation of an owner. A job's allocation comes from the prolog's
// files and not from the kubelet.
func (o *Owner) hiddenWith() hides {
	if o.Job {
		return hidesJobs | liesAboutJobs
	}
	return hidesPods
}

// learnt returns the time from which the exporter could detect an owner: the start of the owner's work or allocation.
// If an outage hides this start, learnt returns the end of the outage.
func (t *truth) learnt(o *Owner, at time.Duration, byWork bool) time.Duration {
	after := around + t.slack
	for again := true; again; {
		again = false
		for _, w := range t.unread(o.GPU) {
			if w.wider(tick, tick).covers(at) || w.wider(tick, tick).covers(o.From) && at < w.to+after {
				again, at = again || at < w.to+after, max(at, w.to+after)
			}
		}
		if byWork {
			continue
		}
		for _, w := range t.hidden(o.hiddenWith()|hidesOwners, o.GPU) {
			next := w.to + poll + after
			if w.wider(tick, poll).covers(o.From) && at < next {
				again, at = true, next
			}
		}
	}
	return at
}

// suspected returns the time from which the exporter must consider that a pod may hold the GPU undetected. This is the
// case if the kubelet does not respond and the allocations have expired.
func (t *truth) suspected(o *Owner) time.Duration {
	for _, w := range t.hidden(hidesPods, o.GPU) {
		if w.wider(tick, poll).covers(o.From) && t.hidden(hidesAll&^hidesPods, o.GPU).within(w.wider(tick, expired)).length() == 0 {
			return max(o.From, w.from+expired) + around + t.slack
		}
	}
	return always.to
}

// others returns the spans in which the exporter could detect another owner that held or used the GPU.
func (t *truth) others(o *Owner) spans {
	var all []span
	for i := range t.Owners {
		if x := &t.Owners[i]; x.GPU == o.GPU && x.Name != o.Name {
			all = append(all, t.noticed(x)...)
		}
	}
	return union(all...)
}

func until(at time.Duration) spans { return union(span{0, at}) }
