package blindness

import "time"

// checkReasons checks that unattributed energy has an explanation.
func (c *checker) checkReasons(s *Shot, g int) {
	known := c.hidden(hidesPods|hidesJobs|liesAboutJobs|hidesContexts|hidesOwners, g).wider(around+c.slack, poll+settled+c.slack)
	started := span{0, starting + poll + settled + c.slack}
	explained := map[string]spans{
		"gap":      c.smeared(g),
		"unknown":  c.smear(g, union(append(known, started)...)),
		"unmapped": c.smear(g, union(append(append(known, started), c.changes(g)...)...)),
		"host":     nil,
		"idle":     c.smear(g, spans{always}.minus(c.owned(g))),
	}
	for reason, in := range explained {
		booked := s.sum(Series{Name: unattributedEnergy, UUID: c.GPUs[g].UUID, Split: reason})
		if limit := c.energy(g, in.within(span{0, s.At + tick})) + rounding; booked > limit {
			c.breaks(ruleReason, c.GPUs[g].UUID+" "+reason, s.At, "%d mJ, at most %d mJ are explained", booked, limit)
		}
	}
}

// changes returns the times around the start and the end of each process on a GPU.
func (c *checker) changes(g int) spans {
	var out []span
	for i := range c.Owners {
		if o := &c.Owners[i]; o.GPU == g && o.Context {
			out = append(out, span{o.From, o.From}.wider(around+c.slack, settled+c.slack), span{o.Until, o.Until}.wider(around+c.slack, settled+c.slack))
		}
	}
	return union(out...)
}

// owned returns the spans in which the exporter could detect that a GPU was allocated or used.
func (c *checker) owned(g int) spans {
	var all []span
	for i := range c.Owners {
		if o := &c.Owners[i]; o.GPU == g {
			all = append(all, c.noticed(o)...)
		}
	}
	return union(all...)
}

func (c *checker) checkMore(s *Shot, g int) {
	counted := s.sum(Series{Name: gpuEnergy, UUID: c.GPUs[g].UUID})
	if used := c.energy(g, until(s.At+tick)) + c.twice(g, s.At) + rounding; counted > used {
		c.breaks(ruleEnergyMore, c.GPUs[g].UUID, s.At, "counted %d mJ, used %d mJ", counted, used)
	}
}

const mostWatts = 700

// twice returns the energy that may be counted twice on a GPU, up to a given time. If a counter returns half of a small
// value and then the whole value, this looks like a late counter after a reset. The exporter then accepts at most the
// energy that the board can draw within the maximum delay of a counter.
func (c *checker) twice(g int, at time.Duration) (sum int64) {
	for _, s := range c.by(counterLow, g) {
		if s.to <= at+tick {
			sum += min(c.energy(g, until(s.to))/2, int64((latest+around+lateFor).Seconds()*mostWatts*1000))
		}
	}
	return sum
}

// The last page must contain all energy and times that the exporter could read.
func (c *checker) checkEnd(s *Shot) {
	began := make([]time.Duration, len(c.GPUs))
	for g, b := range c.GPUs {
		created := s.Series[Series{Name: gpuEnergy, UUID: b.UUID}].Created
		if created.IsZero() {
			c.breaks(ruleEnergyLess, b.UUID, s.At, "no energy was counted")
			continue
		}
		began[g] = created.Sub(c.Began)
		c.checkLess(s, g, began[g])
	}
	for i := range c.Owners {
		c.checkHeldLess(s, &c.Owners[i], began[c.Owners[i].GPU]+around+c.slack)
	}
}

// checkLess checks that the exporter counted all energy that the driver reported. The uncounted energy must be at most
// the bound on the page.
func (c *checker) checkLess(s *Shot, g int, began time.Duration) {
	uuid := c.GPUs[g].UUID
	counted := s.sum(Series{Name: gpuEnergy, UUID: uuid})
	due := union(span{began + around + c.slack, s.At - settled - c.slack})
	dropped := c.smear(g, c.hidden(dropsEnergy, g).wider(around+c.slack, settled+c.slack))
	if used := c.energy(g, due.minus(dropped)) - rounding; counted < used {
		c.breaks(ruleEnergyLess, uuid, s.At, "counted %d mJ, readings could detect %d mJ", counted, used)
	}
	if !c.Bounded() {
		return
	}
	bound := s.sum(Series{Name: uncountedBound, UUID: uuid})
	half := c.energy(g, c.by(counterLow, g)) / 2 // these counters return half of the energy
	if used := c.energy(g, due) - half - rounding; used-counted > bound {
		c.breaks(ruleBound, uuid, s.At, "%d mJ are missing, the bound is %d mJ", used-counted, bound)
	}
}
