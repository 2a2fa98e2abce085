package blindness

import (
	"slices"
	"time"
)

// A span is measured from the start of the play.
type span struct{ from, to time.Duration }

// always covers every play.
var always = span{-time.Hour, time.Hour}

func (s span) length() time.Duration { return max(s.to-s.from, 0) }

func (s span) wider(before, after time.Duration) span { return span{s.from - before, s.to + after} }

func (s span) covers(t time.Duration) bool { return t >= s.from && t < s.to }

func (s span) meets(o span) bool { return s.from < o.to && o.from < s.to }

func (s span) within(o span) span { return span{max(s.from, o.from), min(s.to, o.to)} }

// spans contains spans in chronological order, with a gap between two spans.
type spans []span

func union(all ...span) spans {
	all = slices.DeleteFunc(slices.Clone(all), func(s span) bool { return s.length() == 0 })
	slices.SortFunc(all, func(a, b span) int { return int(a.from - b.from) })
	var out spans
	for _, s := range all {
		if last := len(out) - 1; last >= 0 && s.from <= out[last].to {
			out[last].to = max(out[last].to, s.to)
			continue
		}
		out = append(out, s)
	}
	return out
}

func (a spans) minus(b spans) spans {
	var out []span
	for _, s := range a {
		for _, hole := range b {
			if !s.meets(hole) {
				continue
			}
			out = append(out, span{s.from, hole.from})
			s.from = hole.to
		}
		out = append(out, s)
	}
	return union(out...)
}

// within returns the intersection of a and s.
func (a spans) within(s span) spans {
	return a.minus(spans{always}.minus(union(s)))
}

func (a spans) length() time.Duration {
	var sum time.Duration
	for _, s := range a {
		sum += s.length()
	}
	return sum
}

// wider extends each span by the time before at its start and by the time after at its end.
func (a spans) wider(before, after time.Duration) spans {
	var out []span
	for _, s := range a {
		out = append(out, s.wider(before, after))
	}
	return union(out...)
}

// after returns the first time at or after t that is not in any span.
func (a spans) after(t time.Duration) time.Duration {
	for _, s := range a {
		if s.covers(t) {
			t = s.to
		}
	}
	return t
}

// meeting returns the spans of a that overlap b.
func (a spans) meeting(b spans) spans {
	return slices.DeleteFunc(slices.Clone(a), func(s span) bool { return b.within(s).length() == 0 })
}
