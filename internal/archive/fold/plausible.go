package fold

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// DefaultMaxPower is the default of [Input.MaxPower], in watts. Boards with one GPU have a power limit of 1,400 W or
// less.
const DefaultMaxPower = 2000

const (
	// When a value is scraped, it may be up to slack milliseconds old.
	slack = 2 * 60 * 1000
	// A node's clock may be wrong by up to skew milliseconds. Created timestamps come from this clock.
	skew = 60 * 60 * 1000
	// maxExact is the largest number up to which a float64 represents every integer exactly.
	maxExact = 1 << 53
)

type kind int

const (
	energy  kind = iota // energy, limited by the power of the board
	gpuTime             // time on one GPU, limited by the elapsed time
	held                // sum of times of containers and instances, not limited
	bound               // upper bound of the uncounted energy; not limited, because it may rise fast after a gap
	health              // counts of errors; not limited, and may fall at any time
	// Earlier exporters do not have these counters, and do not keep them in the state file. After a downgrade and an
	// upgrade, the counters therefore begin at 0 with the same created timestamp.
	laterEnergy
	laterHeld
	hardware // counts that may be older than the first sample, so the first value is not an increase
)

func (k kind) ofEnergy() bool { return k == energy || k == laterEnergy }

// falls reports whether a counter may restart at 0 with the same created timestamp.
func (k kind) falls() bool { return k == health || k == laterEnergy || k == laterHeld || k == hardware }

// rate returns the highest increase per millisecond. It returns 0 if the increase is not limited.
func (k kind) rate(power int64) int64 {
	switch {
	case k.ofEnergy():
		return power // millijoules
	case k == gpuTime:
		return 1
	}
	return 0
}

// exact returns a value as an integer in the smallest unit. It returns false if a counter cannot have this value: it is
// negative, NaN, or too large to be exact.
func (c *counter) exact(value float64) (int64, bool) {
	if !isExact(value * c.unit) {
		return 0, false
	}
	return int64(value*c.unit + 0.5), true
}

func isExact(value float64) bool { return value >= 0 && value <= maxExact }

// track contains the samples of a counter in an hour.
type track struct {
	*counter
	account Account
	samples []Sample
	rate    int64
	// first and last are the first and the last plausible point. If based is set, first is from before the hour. sum is
	// the increase from first to last. within is sum without the increase before the first sample of the hour.
	first, last point
	sum, within int64
	based       bool
	// The counter grew between began and ended. Both are 0 if the counter did not grow.
	began, ended int64
}

// point is a value of a counter at a time, with the created timestamp of the counter.
type point struct {
	time, value int64
	began       float64
	known       bool // whether began is known
	// moved is the first time at which the counter had this value. If the driver did not respond for some time, moved
	// is before the time of the sample.
	moved int64
	// isNew is set if the point is not a sample, but the assumed start of a new counter at 0.
	isNew bool
}

func (t *track) drop(bad map[int64]bool) {
	isBad := func(s Sample) bool { return bad[s.Time] }
	if slices.ContainsFunc(t.samples, isBad) {
		t.samples = slices.DeleteFunc(slices.Clone(t.samples), isBad)
	}
}

// settle finds the plausible samples, and adds the times of the implausible samples to bad.
func (t *track) settle(b *board, bad map[int64]bool) error {
	if len(t.samples) == 0 { // all samples were dropped
		if t.sum, t.within, t.last = 0, 0, t.first; !t.based {
			t.last = point{}
		}
		t.began, t.ended = 0, 0
		return nil
	}
	if !t.direct(b) {
		if err := t.search(b, bad); err != nil {
			return err
		}
	}
	switch {
	case t.sum > maxExact:
		return fmt.Errorf("%s: the sum of the increases is too large for a counter: %w", t.account.name(), ErrImplausible)
	case t.sum > t.most(t.last.time-t.first.moved):
		return t.exceeds(t.sum, t.first.moved, t.last.time)
	}
	return nil
}

// opening returns the point before the first sample. This is the opening value, or the start of a new counter. If the
// increase before the first sample is unknown, opening returns false.
func (t *track) opening(b *board, created *timeline) (p point, found bool) {
	opening, known := b.openings[t.account]
	value, exact := t.exact(opening.Value)
	first := t.samples[0].Time
	switch {
	case known && exact:
		p = point{time: opening.Time, value: value}
		p.began, p.known = created.at(b.start)
	case t.kind != hardware && b.isNew(t.account, first):
		p.began, p.known = created.at(first)
		p.time, p.isNew = b.beginning(p, first), true
	default:
		return p, false
	}
	p.moved = p.time
	return p, true
}

func (t *track) point(s Sample, created *timeline) (p point) {
	p.time, p.moved = s.Time, s.Time
	p.value, _ = t.exact(s.Value)
	p.began, p.known = created.at(s.Time)
	return p
}

// direct adds up the increases between all samples. If a step between two samples is implausible, it returns false.
func (t *track) direct(b *board) bool {
	created := b.createdAt(t.counter, t.account)
	samples := t.samples
	if t.first, t.based = t.opening(b, &created); !t.based {
		t.first, samples = t.point(samples[0], &created), samples[1:]
	}
	t.last, t.sum, t.within, t.began, t.ended = t.first, 0, 0, 0, 0
	for i, s := range samples {
		next := t.point(s, &created)
		n, ok := t.step(&t.last, &next)
		if t.sum += n; !ok || t.sum > maxExact {
			return false
		}
		if i > 0 || !t.based {
			t.within += n
		}
		t.grow(b, &t.last, &next, n)
		next.move(&t.last)
		t.last = next
	}
	return true
}

// beginning returns the earliest time at which a new counter may have been 0.
func (b *board) beginning(p point, first int64) int64 {
	earliest := b.start - b.lookback
	if began := p.began * 1000; p.known && began <= float64(first) && began-skew > float64(earliest) {
		return int64(began) - skew
	}
	return earliest
}

func (t *track) most(milliseconds int64) int64 {
	if t.rate == 0 {
		return math.MaxInt64
	}
	return t.rate * (min(max(milliseconds, 0), 10*Lookback.Milliseconds()) + slack)
}

// step returns the increase from one point to a later point. It returns false if the later point is implausible. If the
// created timestamp changed, the counter restarted at 0. If the value fell, the counter restarted only if its created
// timestamp is unknown or if such counters may fall.
func (t *track) step(a, b *point) (int64, bool) {
	most, rise := t.most(b.time-a.moved), b.value-a.value
	same := a.known && b.known && a.began == b.began
	switch {
	case restarted(a, b) && b.value <= most:
		return b.value, true
	case rise >= 0: // the changed created timestamp may be wrong
		return rise, rise <= most
	case same && !t.kind.falls():
		return 0, false
	}
	return b.value, b.value <= most
}

func (p *point) move(before *point) {
	if p.value == before.value {
		p.moved = before.moved
	}
}

func restarted(a, b *point) bool { return a.known && b.known && a.began != b.began }

// jumps returns the error for a counter that jumps to another value and continues from there.
func (t *track) jumps(a, b *point) error {
	if b.value < a.value {
		return fmt.Errorf("%s falls from %s to %s at %s without a new created timestamp, and does not return: %w",
			t.account.name(), t.text(a.value), t.text(b.value), clock(b.time), ErrImplausible)
	}
	return t.exceeds(b.value-a.value, a.moved, b.time)
}

func (t *track) exceeds(rise, from, until int64) error {
	limit := "1 s in each second"
	if t.kind.ofEnergy() {
		limit = fmt.Sprintf("%d W", t.rate)
	}
	return fmt.Errorf("%s rises by %s from %s to %s, above the limit of %s: %w", t.account.name(), t.text(rise), clock(from), clock(until), limit, ErrImplausible)
}

func (t *track) text(value int64) string {
	return fmt.Sprintf("%.3f %s", float64(value)/t.unit, map[kind]string{energy: "J", gpuTime: "s", held: "s", bound: "J", health: "", laterEnergy: "J", laterHeld: "s"}[t.kind])
}

func clock(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02 15:04:05") }
