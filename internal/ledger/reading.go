package ledger

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// accept checks a reading of the counter. The increase since the last mark must be between 0 and 1.5 × maximum power ×
// Δt. Δt is the time since the last mark plus the maximum delay of the reading at this mark (see Mark.took).
//
// A board that is on draws power, so a counter that does not change was not refreshed. The next increase is charged for
// the whole time since the counter last changed. Its limit is the energy that the board can draw in this time. A
// delayed counter may exceed this limit (see lag).
//
// accept holds back an implausible reading until the next reading. If the next reading is plausible after the last
// mark, the held reading was a glitch. If the next reading is plausible after the held reading, the counter was reset.
// The unknown energy between the mark and the held reading is then not added.
func (b *book) accept(m Mark, gapAfter time.Duration) {
	switch s := b.pendingReset; {
	case !b.open():
		b.Opened, b.Settled, b.read = m.At.Wall, m.At, m
		b.begin(m)
	case plausible(b.changed(), &m, b.maxPower, b.lag.unused):
		b.discardOutlier()
		b.rise(m, gapAfter)
	case s != nil && plausible(&s.Mark, &m, b.maxPower, 0):
		b.reset(s, gapAfter)
		grown, _ := growth(&s.Mark, &m)
		b.append(m, grown, gapAfter)
		b.read = m
	default:
		b.hold(m, gapAfter)
	}
}

func (b *book) rise(m Mark, gapAfter time.Duration) {
	last := b.last
	grown, _ := growth(b.changed(), &m)
	missing := b.uncounted(&m, grown, gapAfter)
	switch {
	case grown <= 0:
		b.stand(m, gapAfter)
	case b.still != nil:
		b.catchUp(m, grown, gapAfter)
	case plausible(last, &m, b.maxPower, 0):
		b.append(m, grown, gapAfter)
	default:
		b.appendLate(m, grown, gapAfter)
	}
	b.pending[len(b.pending)-1].uncounted = missing
	b.lag.add(m, m.At.Sub(last.At), grown, b.maxPower)
	b.read = m
}

func (b *book) reset(first *pendingReset, gapAfter time.Duration) {
	after, lost := b.since, drawable(b.changed(), &first.Mark, b.maxPower)
	b.since, b.pendingReset = first.before, nil
	b.append(first.Mark, 0, gapAfter)
	iv := &b.pending[len(b.pending)-1]
	iv.reset, iv.uncounted = true, lost
	b.since, b.still, b.lag = after, nil, lag{}
}

func (b *book) hold(m Mark, gapAfter time.Duration) {
	b.discardOutlier()
	if m.At.Sub(b.last.At) > gapAfter {
		b.since = b.since.end(m)
	}
	b.pendingReset = &pendingReset{Mark: m, before: b.since}
	b.since = b.after(m)
}

func (b *book) discardOutlier() {
	if b.pendingReset == nil {
		return
	}
	b.Rejected++
	b.pendingReset.before.merge(b.since)
	b.since, b.pendingReset = b.pendingReset.before, nil
}

// counterStep is the interval at which the board refreshes its counter. The difference between two readings may contain
// the energy of one such interval before the first reading.
const counterStep = 100 * time.Millisecond

// assumedMaxPower is used if the maximum power of a board is unknown.
const assumedMaxPower gpu.Watts = 10_000

// plausible reports whether reading b can follow reading a. The counter may rise by the energy that the board can draw
// between the readings, plus a tolerance. The tolerance is half of this energy, but at least the argument beyond.
func plausible(a, b *Mark, maxPower gpu.Watts, beyond gpu.Millijoules) bool {
	most := drawable(a, b, maxPower)
	grown, known := growth(a, b)
	return known && grown >= 0 && grown <= max(most*3/2, most+beyond)
}

// drawable returns the maximum energy that a board can draw between two readings. It includes the time by which the
// first value may be older than its mark.
func drawable(from, to *Mark, maxPower gpu.Watts) gpu.Millijoules {
	return draws(maxPower, to.At.Sub(from.At)+from.took+counterStep)
}

func draws(maxPower gpu.Watts, d time.Duration) gpu.Millijoules {
	if maxPower <= 0 {
		maxPower = assumedMaxPower
	}
	return gpu.Millijoules(float64(maxPower) * d.Seconds() * 1000)
}

// uncounted returns an upper bound of the energy that is missing from a plausible rise: the maximum power times the
// time since the counter changed, minus the rise. It returns 0 except in two cases.
//
// In the first case, the counter was not read for some time, so it may have been reset and may have passed its old
// value. In the second case, the counter is an integral of power, which omits long times without a reading.
func (b *book) uncounted(m *Mark, grown gpu.Millijoules, gapAfter time.Duration) gpu.Millijoules {
	unread := m.At.Sub(b.read.At)
	began := unread > gapAfter/4 && m.Counter != summed && m.Energy <= drawable(&b.read, m, b.maxPower)
	omits := unread > gapAfter && m.Counter == summed
	if !began && !omits {
		return 0
	}
	return max(0, drawable(b.changed(), m, b.maxPower)-grown)
}
