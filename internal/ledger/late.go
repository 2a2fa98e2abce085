package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A busy machine may delay the refresh of a counter. It falls behind, and then rises by more than the
// board can draw since the last reading. Such a rise is late, and no reset, if the board can have drawn
// the energy before, when the counter rose by less than that.

// lateFor is the time by which a counter may be behind.
const lateFor = 10 * time.Second

// A lag shows whether a counter may be behind.
type lag struct {
	// unused is the energy that the board could have drawn until the last mark beyond the counter, at
	// most that of lateFor.
	unused gpu.Millijoules
	// recent contains the marks of that time.
	recent []Mark
}

// add adds a mark of the counter, which grew in a time.
func (g *lag) add(m Mark, took time.Duration, grown gpu.Millijoules, maxPower gpu.Watts) {
	g.unused = min(max(0, g.unused+draws(maxPower, took)-grown), draws(maxPower, lateFor))
	g.recent = slices.DeleteFunc(g.recent, func(r Mark) bool { return m.At.Sub(r.At) > lateFor })
	g.recent = append(g.recent, m)
}

// sameOwners reports whether the processes and allocations are the same at all recent marks as at m.
func (g *lag) sameOwners(m Mark) bool {
	return !slices.ContainsFunc(g.recent, func(r Mark) bool {
		return !slices.Equal(r.Processes, m.Processes) || !slices.Equal(r.Holders, m.Holders)
	})
}

// appendLate closes an interval with the energy of a counter that was behind. If the owners changed
// recently, the energy that the board cannot have drawn in the interval is charged as in a gap.
func (b *book) appendLate(m Mark, grown gpu.Millijoules, gapAfter time.Duration) {
	own := grown
	if !b.lag.sameOwners(m) {
		own = min(grown, drawable(b.last, &m, b.maxPower))
	}
	from, end := b.lag.recent[0], b.since.end(m)
	b.append(m, own, gapAfter)
	iv := &b.pending[len(b.pending)-1]
	iv.unmetered = true
	if late := grown - own; late > 0 {
		iv.late = &interval{from: from, to: m, energy: b.ownShare(late, m.share), window: end, gap: true, timeless: true}
	}
}
