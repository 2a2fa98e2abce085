package foldtest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Parts contains all amounts of a board, a pod or a unit except its energy. Pods have no uncounted energy, and boards
// have no busy time.
type Parts struct {
	Uncounted, Estimated int64 // mJ
	Busy                 int64 // ms
}

// gained returns the increase of the parts since an earlier scrape.
func (p Parts) gained(before Parts) Parts {
	return Parts{p.Uncounted - before.Uncounted, p.Estimated - before.Estimated, p.Busy - before.Busy}
}

// Plus adds two sets of amounts.
func (p Parts) Plus(q Parts) Parts {
	return Parts{p.Uncounted + q.Uncounted, p.Estimated + q.Estimated, p.Busy + q.Busy}
}

// parted contains the current amounts and the amounts at the last scrape.
type parted struct{ now, last Parts }

// scrape adds the increase since the last scrape to the true amounts.
func (p *parted) scrape(truth *Parts) {
	*truth, p.last = truth.Plus(p.now.gained(p.last)), p.now
}

// Span is the time from the start of a pod's or unit's counters to the last scrape at which one of
// these counters had increased.
type Span struct{ Began, Ended time.Time }

// scraped adds the increase of all amounts of a node and its pods to the true amounts.
func (n *Node) scraped(at time.Time) {
	n.parts.scrape(&n.Parts)
	for uid, p := range n.pods {
		if p.energy != p.last || p.parts.now != p.parts.last {
			n.Spans[uid] = Span{p.began, at}
		}
		sum := n.PodParts[uid]
		p.parts.scrape(&sum)
		n.PodParts[uid] = sum
	}
}

// estimate increases the amounts of a node for a minute in which pods used energy. After a gap, the uncounted energy
// may exceed the energy that the board can draw in a minute.
func (n *Node) estimate(r *rand.Rand, gained map[string]int64) {
	if r.IntN(40) == 0 {
		n.parts.now.Uncounted += r.Int64N(1e12)
	}
	shared := r.IntN(3) == 0
	for _, uid := range slices.Sorted(maps.Keys(gained)) {
		p := &n.pods[uid].parts.now
		p.Busy += r.Int64N(60_001)
		if part := r.Int64N(gained[uid] + 1); shared {
			p.Estimated += part
			n.parts.now.Estimated += part
		}
	}
}
