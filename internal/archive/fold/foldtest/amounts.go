package foldtest

import (
	"maps"
	"math/rand/v2"
	"slices"
	"time"
)

// Amounts contains the energy and time of a board, a pod or a unit. Pods have no uncounted energy, and boards have no
// busy time.
type Amounts struct {
	Energy, Uncounted, Estimated int64 // mJ
	Busy                         int64 // ms
}

// Add adds b, multiplied by a factor.
func (a *Amounts) Add(b Amounts, factor int64) {
	a.Energy += factor * b.Energy
	a.Uncounted += factor * b.Uncounted
	a.Estimated += factor * b.Estimated
	a.Busy += factor * b.Busy
}

// Span begins with the counters of a pod or unit. It ends with the last scrape after an increase of these counters.
type Span struct{ Began, Ended time.Time }

// Use is the use of a GPU by a pod or a unit.
type Use struct {
	Amounts
	Span
}

// now contains the current values of the counters. last contains their values at the last scrape.
type counters struct{ now, last Amounts }

// scrape adds the increase since the last scrape to truth.
func (c *counters) scrape(truth *Amounts) {
	truth.Add(c.now, 1)
	truth.Add(c.last, -1)
	c.last = c.now
}

func (n *Node) scraped(at time.Time) {
	n.scrape(&n.Board)
	for uid, p := range n.pods {
		use := n.Pods[uid]
		if p.now != p.last {
			use.Span = Span{p.began, at}
		}
		p.scrape(&use.Amounts)
		n.Pods[uid] = use
	}
}

// estimate increases all counters of a node except the energy counter, for one minute. gained is the energy of each pod
// in this minute. The uncounted energy may exceed the energy that the board can draw in a minute, as after a gap.
func (n *Node) estimate(r *rand.Rand, gained map[string]int64) {
	if r.IntN(40) == 0 {
		n.now.Uncounted += r.Int64N(1e12)
	}
	shared := r.IntN(3) == 0
	for _, uid := range slices.Sorted(maps.Keys(gained)) {
		p := &n.pods[uid].now
		p.Busy += r.Int64N(60_001)
		if part := r.Int64N(gained[uid] + 1); shared {
			p.Estimated += part
			n.now.Estimated += part
		}
	}
}
