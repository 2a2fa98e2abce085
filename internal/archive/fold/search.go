package fold

import (
	"fmt"
	"slices"
)

// maxPoints limits the number of samples in a search, because the search compares each sample with all other samples.
const maxPoints = 5000

type candidate struct {
	point
	// length is the length of the longest plausible sequence that ends with this point. before is the previous point in
	// this sequence.
	before *candidate
	length int
}

// search adds up the increases in the longest plausible sequence. It adds the times of all other samples to bad.
func (t *track) search(b *board, bad map[int64]bool) error {
	if len(t.samples) > maxPoints {
		return fmt.Errorf("%s: %d samples: %w", t.account.name(), len(t.samples), ErrImplausible)
	}
	created := b.createdAt(t.counter, t.account)
	var all []*candidate
	opening, based := t.opening(b, &created)
	if based {
		all = append(all, &candidate{point: opening})
	}
	for _, s := range t.samples {
		all = append(all, &candidate{point: t.point(s, &created)})
	}
	kept := t.longest(all, based)
	if err := t.explain(all, kept); err != nil {
		return err
	}
	for i, next := 0, 0; i < len(all); i++ {
		if next < len(kept) && all[i] == kept[next] {
			next++
		} else {
			bad[all[i].time] = true
		}
	}
	t.first, t.last, t.sum, t.within, t.based = kept[0].point, kept[len(kept)-1].point, 0, 0, based
	t.began, t.ended = 0, 0
	for i, c := range kept[1:] {
		n, _ := t.step(&c.before.point, &c.point)
		if t.sum = min(t.sum+n, maxExact+1); i > 0 || !based {
			t.within = min(t.within+n, maxExact+1)
		}
		t.grow(b, &c.before.point, &c.point, n)
	}
	return nil
}

// longest returns the longest sequence in which each step is plausible. If based is set, the sequence must begin with
// the first point, which is from before the hour.
func (t *track) longest(all []*candidate, based bool) []*candidate {
	last := all[0]
	for j, c := range all {
		if j == 0 || !based {
			c.length = 1
		}
		for i := j - 1; i >= 0; i-- { // of several sequences with the same length, the latest is used
			before := all[i]
			if before.length < c.length || before.length == 0 {
				continue
			}
			if _, ok := t.step(&before.point, &c.point); ok {
				c.before, c.length = before, before.length+1
			}
		}
		if c.before != nil {
			c.move(&c.before.point)
		}
		if c.length >= last.length {
			last = c
		}
	}
	kept := make([]*candidate, last.length)
	for c := last; c != nil; c = c.before {
		kept[c.length-1] = c
	}
	return kept
}

// explain checks that all points outside kept are wrong. A point is wrong if it is impossible between the kept points
// around it. A single point is also wrong at the beginning, at the end or before a restart. In all other cases, the
// counter jumped to a value and stayed there, and explain returns an error.
func (t *track) explain(all, kept []*candidate) error {
	var before *candidate
	var run []*candidate
	for _, c := range all {
		if len(kept) > 0 && c == kept[0] {
			if err := t.explainRun(before, run, c); err != nil {
				return err
			}
			before, run, kept = c, nil, kept[1:]
		} else {
			run = append(run, c)
		}
	}
	return t.explainRun(before, run, nil)
}

// explainRun checks the points between two kept points. before is nil at the beginning, and after is nil at the end of
// the samples.
func (t *track) explainRun(before *candidate, run []*candidate, after *candidate) error {
	if len(run) == 0 || len(run) == 1 && (before == nil || after == nil || restarted(&run[0].point, &after.point)) {
		return nil
	}
	stays := before == nil || after == nil
	for _, c := range run {
		stays = stays || t.continues(&before.point, &c.point) && t.continues(&c.point, &after.point)
	}
	if !stays {
		return nil
	}
	last := before
	for _, c := range append(slices.Clone(run), after) {
		if last != nil && c != nil {
			if _, ok := t.step(&last.point, &c.point); !ok {
				return t.jumps(&last.point, &c.point)
			}
		}
		last = c
	}
	return fmt.Errorf("%s has values that contradict each other: %w", t.account.name(), ErrImplausible)
}

// continues reports whether a step is possible at any rate.
func (t *track) continues(a, b *point) bool {
	return b.value >= a.value || restarted(a, b)
}
