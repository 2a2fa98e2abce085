package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A busy machine may delay the refresh of a counter. The counter then falls behind. Later it rises by more energy than
// the board can have drawn since the last reading. The excess is late energy if the board can have drawn it earlier,
// while the counter rose too slowly. Otherwise the reading is implausible.

// lateFor is the maximum delay of a counter.
const lateFor = 10 * time.Second

type lag struct {
	// unused is energy that the board could have drawn up to the last mark, but that the counter has not counted. It is
	// limited to the energy that the board can draw in lateFor.
	unused gpu.Millijoules
	// recent contains the last mark and earlier marks that are at most lateFor older.
	recent []Mark
}

func (g *lag) add(m Mark, took time.Duration, grown gpu.Millijoules, maxPower gpu.Watts) {
	g.unused = min(max(0, g.unused+draws(maxPower, took)-grown), draws(maxPower, lateFor))
	g.recent = slices.DeleteFunc(g.recent, func(r Mark) bool { return m.At.Sub(r.At) > lateFor })
	g.recent = append(g.recent, m)
}

func (g *lag) sameOwners(m Mark) bool {
	return !slices.ContainsFunc(g.recent, func(r Mark) bool {
		return !slices.Equal(r.Processes, m.Processes) || !slices.Equal(r.Holders, m.Holders)
	})
}

// appendLate closes an interval at whose end a delayed counter caught up. If the owners changed recently, the energy
// that the board cannot have drawn in this interval is charged like the energy of a gap.
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
