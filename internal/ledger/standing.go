package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A standing describes a counter that has not changed, or could not be read, since the mark from. Until the counter
// changes, the ledger closes intervals with zero energy. Therefore it still counts the held time and the active time of
// the owners. When the counter rises again, the increase is charged for the whole time since the last change.
type standing struct {
	from Mark
	// seen summarises the observations since from. It is empty if long is set.
	// other is set if a process worked that was not present at from.
	seen        window
	long, other bool
}

// longStanding is the maximum time for which the observations of a standing counter are kept.
const longStanding = 10 * time.Minute

func (b *book) changed() *Mark {
	if b.still != nil {
		return &b.still.from
	}
	return b.last
}

// stand closes an interval with zero energy, because the counter has not changed.
func (b *book) stand(m Mark, gapAfter time.Duration) {
	still := b.stood(m, gapAfter)
	b.append(m, 0, gapAfter)
	b.pending[len(b.pending)-1].unmetered = true
	b.still = still
}

// catchUp closes an interval when a standing counter changes. The energy since the last change becomes late energy.
func (b *book) catchUp(m Mark, energy gpu.Millijoules, gapAfter time.Duration) {
	still := b.stood(m, gapAfter)
	if still.long {
		still.seen = b.since.end(m)
	}
	b.append(m, 0, gapAfter)
	iv := &b.pending[len(b.pending)-1]
	iv.unmetered = true
	iv.late = &interval{
		from: still.from, to: m, energy: b.ownShare(energy, m.share), window: still.seen,
		gap: still.long, other: still.other, timeless: true,
	}
	b.still = nil
	b.last.Former = b.last.Former.add(energy)
}

// stood returns the standing of the counter, including the observations up to m.
func (b *book) stood(m Mark, gapAfter time.Duration) *standing {
	gap := b.restored || m.At.Sub(b.last.At) > gapAfter
	s := standing{from: *b.last, long: gap}
	if b.still != nil {
		s = *b.still
		s.long = s.long || gap || m.At.Sub(s.from.At) > longStanding
	}
	s.other = s.other || slices.ContainsFunc(b.since.processes, func(u usage) bool { return u.worked() && !s.from.has(u.ID) })
	switch now := b.since.clone(); {
	case s.long:
		s.seen = window{}
	case b.still == nil:
		s.seen = now
	default:
		s.seen = s.seen.clone()
		s.seen.merge(now)
	}
	return &s
}

// stillSince returns nil if the counter changed at the saved base.
func (b *book) stillSince() *Mark {
	if len(b.pending) > 0 {
		return b.pending[0].changed
	}
	if b.still != nil {
		return &b.still.from
	}
	return nil
}

func (b *book) chargeLate(st *settlement, iv *interval, parts []part) {
	l := iv.load()
	b.chargeEnergy(st, iv, parts, l)
	b.learnIdlePower(iv, l)
	b.Energy += iv.energy
}

func (w *window) clone() window {
	c := *w
	c.processes = slices.Clone(w.processes)
	c.places, c.instances = maps.Clone(w.places), maps.Clone(w.instances)
	return c
}

// waits is set if any of the parts must not be settled yet. late contains the parts of the late energy.
func (iv *interval) parts(st *settlement) (parts, late []part, waits bool) {
	parts = iv.divide(st.owners)
	if iv.late != nil {
		late = iv.late.divide(st.owners)
	}
	one := func(p part) bool { return p.waits() }
	return parts, late, slices.ContainsFunc(parts, one) || slices.ContainsFunc(late, one)
}
