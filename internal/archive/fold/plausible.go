package fold

import (
	"fmt"
	"math"
	"time"
)

// DefaultMaxPower is the default of [Input.MaxPower], in watts. Boards of one GPU have limits up to 1,400 W.
const DefaultMaxPower = 2000

const (
	// slack is the time by which a counter may be behind or ahead of its scrape, in milliseconds.
	slack = 2 * 60 * 1000
	// skew is the same for the clock of a node, which sets created timestamps.
	skew = 60 * 60 * 1000
	// maxExact is the highest value of which all integers are exact.
	maxExact = 1 << 53
	// maxPoints limits the search for plausible samples: it compares each with all others.
	maxPoints = 5000
)

// kind is a kind of counters.
type kind int

const (
	energy  kind = iota // bounded by the power of the board
	gpuTime             // bounded by the clock
	held                // time summed over containers and instances, without a bound
	health              // counts of errors, without a bound, which may fall at any time
)

// rate returns the highest increase in a millisecond, 0 for none.
func (k kind) rate(power int64) int64 {
	switch k {
	case energy:
		return power // millijoules
	case gpuTime:
		return 1
	}
	return 0
}

// exact returns a value in the smallest unit, false if no counter can have it: joules have at most three
// decimals.
func (c *counter) exact(value float64) (int64, bool) {
	if !isExact(value * c.unit) {
		return 0, false
	}
	return int64(value*c.unit + 0.5), true
}

func isExact(value float64) bool { return value >= 0 && value <= maxExact }

// track is a counter of an account in an hour.
type track struct {
	*counter
	account Account
	samples []Sample
	rate    int64
	// kept are the plausible points with the one before them, and sum is the increase between them.
	kept []*point
	sum  int64
}

// point is a value of a counter at a time, with the created timestamp of the counter.
type point struct {
	time, value int64
	began       float64
	known       bool // began
	// moved is when the counter had this value first. A driver that does not respond stops a counter.
	moved int64
	// before is the last point in the longest plausible sequence until this one, which has length points.
	before *point
	length int
}

// drop removes the samples of some scrapes.
func (t *track) drop(bad map[int64]bool) {
	var kept []Sample
	for i, s := range t.samples {
		if bad[s.Time] && kept == nil {
			kept = append(make([]Sample, 0, len(t.samples)), t.samples[:i]...)
		} else if !bad[s.Time] && kept != nil {
			kept = append(kept, s)
		}
	}
	if kept != nil {
		t.samples = kept
	}
}

// settle finds the plausible samples, and adds the times of the others.
func (t *track) settle(b *board, bad map[int64]bool) error {
	t.kept, t.sum = nil, 0
	points, based := t.points(b)
	if len(points) == 0 {
		return nil
	}
	if t.kept = t.direct(points); t.kept == nil {
		if len(points) > maxPoints {
			return fmt.Errorf("%s: %d samples: %w", t.account.name(), len(points), ErrImplausible)
		}
		t.kept = t.longest(points, based)
		if err := t.explain(points); err != nil {
			return err
		}
		keeps := make(map[*point]bool)
		for _, p := range t.kept {
			keeps[p] = true
		}
		for _, p := range points {
			if !keeps[p] {
				bad[p.time] = true
			}
		}
	}
	for i := 1; i < len(t.kept); i++ {
		n, _ := t.step(t.kept[i-1], t.kept[i])
		if t.sum += n; t.sum > maxExact {
			return fmt.Errorf("%s: the increases exceed any counter: %w", t.account.name(), ErrImplausible)
		}
	}
	first, last := t.kept[0], t.kept[len(t.kept)-1]
	if t.sum > t.most(last.time-first.moved) {
		return t.exceeds(t.sum, first.moved, last.time)
	}
	return nil
}

// points returns the point before the samples, if there is one, and those of the samples.
func (t *track) points(b *board) (points []*point, based bool) {
	if len(t.samples) == 0 {
		return nil, false
	}
	created, first := b.createdAt(t.counter, t.account), t.samples[0].Time
	add := func(at, value, until int64) {
		began, known := created.at(until)
		points = append(points, &point{time: at, value: value, began: began, known: known, moved: at})
	}
	opening, known := b.openings[t.account]
	value, exact := t.exact(opening.Value)
	switch {
	case known && exact:
		add(opening.Time, value, b.start)
		based = true
	case b.isNew(t.account, first):
		add(0, 0, first)
		points[0].time = b.beginning(points[0], first)
		points[0].moved = points[0].time
		based = true
	}
	for _, s := range t.samples {
		value, _ := t.exact(s.Value)
		add(s.Time, value, s.Time)
	}
	return points, based
}

// beginning returns the earliest time at which a new counter was 0.
func (b *board) beginning(p *point, first int64) int64 {
	earliest := b.start - b.lookback
	if began := p.began * 1000; p.known && began <= float64(first) && began-skew > float64(earliest) {
		return int64(began) - skew
	}
	return earliest
}

// most returns the highest increase in a time.
func (t *track) most(milliseconds int64) int64 {
	if t.rate == 0 {
		return math.MaxInt64
	}
	return t.rate * (min(max(milliseconds, 0), 10*Lookback.Milliseconds()) + slack)
}

// step returns the increase from one point to a later one, false if it is implausible. A counter with
// another created timestamp restarted at 0. So did one that fell, unless its created timestamp is known.
func (t *track) step(a, b *point) (int64, bool) {
	most, rise := t.most(b.time-a.moved), b.value-a.value
	differ, same := a.known && b.known && a.began != b.began, a.known && b.known && a.began == b.began
	switch {
	case differ && b.value <= most:
		return b.value, true
	case rise >= 0: // the created timestamp may be wrong
		return rise, rise <= most
	case same && t.kind != health:
		return 0, false
	}
	return b.value, b.value <= most
}

// direct returns all points if each continues the one before, else nil.
func (t *track) direct(points []*point) []*point {
	for i := 1; i < len(points); i++ {
		if _, ok := t.step(points[i-1], points[i]); !ok {
			return nil
		}
		points[i].move(points[i-1])
	}
	return points
}

// move sets the time since which a counter has the value of a point.
func (p *point) move(before *point) {
	if p.moved = p.time; p.value == before.value {
		p.moved = before.moved
	}
}

// longest returns the longest sequence of points of which each continues the one before. It begins with
// the point before the samples, if there is one.
func (t *track) longest(points []*point, based bool) []*point {
	last := points[0]
	for j, p := range points {
		p.before, p.length = nil, 0
		if j == 0 || !based {
			p.length = 1
		}
		for i := j - 1; i >= 0; i-- { // the latest one of several
			before := points[i]
			if before.length < p.length || before.length == 0 {
				continue
			}
			if _, ok := t.step(before, p); ok {
				p.before, p.length = before, before.length+1
			}
		}
		if p.moved = p.time; p.before != nil {
			p.move(p.before)
		}
		if p.length >= last.length {
			last = p
		}
	}
	kept := make([]*point, last.length)
	for p := last; p != nil; p = p.before {
		kept[p.length-1] = p
	}
	return kept
}

// explain returns an error unless the points that are not kept are wrong: single ones at the begin or at the
// end, or such that no counter has between those around them. Others are a jump that stays.
func (t *track) explain(points []*point) error {
	next := 0 // the index in kept
	var run []*point
	check := func() error {
		var before, after *point
		if next > 0 {
			before = t.kept[next-1]
		}
		if next < len(t.kept) {
			after = t.kept[next]
		}
		if len(run) == 0 || (before == nil || after == nil) && len(run) == 1 {
			return nil
		}
		for _, p := range run {
			if before != nil && (after == nil || t.continues(before, p) && t.continues(p, after)) {
				return t.jumps(before, p)
			}
			if before == nil {
				return t.jumps(p, after)
			}
		}
		return nil
	}
	for _, p := range points {
		if next < len(t.kept) && p == t.kept[next] {
			if err := check(); err != nil {
				return err
			}
			next++
			run = run[:0]
		} else {
			run = append(run, p)
		}
	}
	return check()
}

// continues reports whether a counter could have both values if it was not bounded.
func (t *track) continues(a, b *point) bool {
	return b.value >= a.value || a.known && b.known && a.began != b.began
}

// jumps returns the error of a counter that jumps from one value to another.
func (t *track) jumps(a, b *point) error {
	if b.value < a.value {
		return fmt.Errorf("%s falls from %s to %s at %s without a new created timestamp, and does not return: %w",
			t.account.name(), t.text(a.value), t.text(b.value), clock(b.time), ErrImplausible)
	}
	return t.exceeds(b.value-a.value, a.moved, b.time)
}

func (t *track) exceeds(rise, from, until int64) error {
	limit := "1 s in each second"
	if t.kind == energy {
		limit = fmt.Sprintf("%d W", t.rate)
	}
	return fmt.Errorf("%s rises by %s from %s to %s, above the limit of %s: %w", t.account.name(), t.text(rise), clock(from), clock(until), limit, ErrImplausible)
}

// text returns a value with its unit.
func (t *track) text(value int64) string {
	return fmt.Sprintf("%.3f %s", float64(value)/t.unit, map[kind]string{energy: "J", gpuTime: "s", held: "s", health: ""}[t.kind])
}

func clock(at int64) string { return time.UnixMilli(at).UTC().Format("2006-01-02 15:04:05") }
