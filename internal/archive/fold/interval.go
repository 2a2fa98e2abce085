package fold

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// grow records that a counter grew by n between two points. The first growth of a new counter began at its created
// timestamp. Any other growth began at the previous sample, or at the start of the hour if this sample is older. Every
// growth ends at a sample.
func (t *track) grow(b *board, from, to *point, n int64) {
	if n == 0 {
		return
	}
	if t.ended == 0 {
		if t.began = max(from.time, b.start); from.isNew || restarted(from, to) {
			t.began = b.opened(to)
		}
	}
	t.ended = to.time
}

// opened returns the time when a new counter was 0. The created timestamp comes from the node's clock, which may be
// wrong. Therefore opened limits it to the time between two scrapes of the board: the last scrape without the counter
// and the first scrape with it. If there is no created timestamp, opened returns the time of the last scrape without
// the counter in this hour. If there is no such scrape, it returns the start of the hour.
func (b *board) opened(first *point) int64 {
	before := b.start - b.lookback
	for _, s := range b.series[boardEnergy] {
		for _, x := range s.Samples {
			if x.Time < first.time && !b.dropped[x.Time] {
				before = max(before, x.Time)
			}
		}
	}
	if !first.known {
		return max(before, b.start)
	}
	return min(max(int64(first.began*1000+0.5), before-slack), first.time)
}

// extend adds the time in which a counter grew to the interval of a pod or unit.
func (r *rows) extend(t *track) {
	if t.ended == 0 || r.refused[t.account.gpuKey] != nil {
		return
	}
	var c *table.Charge
	switch len(t.by) {
	case len(podLabels):
		c = r.pod(t.account)
	case len(unitLabels):
		c = r.unit(t.account)
	default:
		return
	}
	if began := time.UnixMilli(t.began).UTC(); c.Began.IsZero() || began.Before(c.Began) {
		c.Began = began
	}
	if ended := time.UnixMilli(t.ended).UTC(); ended.After(c.Ended) {
		c.Ended = ended
	}
}
