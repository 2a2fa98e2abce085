package main

import (
	"math"
	"slices"
	"time"
)

type point struct {
	at    time.Time
	value float64
}

// series is sorted by time.
type series []point

func (s series) between(from, to time.Time) series {
	var out series
	for _, p := range s {
		if !p.at.Before(from) && !p.at.After(to) {
			out = append(out, p)
		}
	}
	return out
}

func (s series) values() []float64 {
	out := make([]float64, len(s))
	for i, p := range s {
		out[i] = p.value
	}
	return out
}

// changes returns the points whose value differs from the preceding value.
func (s series) changes() series {
	var out series
	for i := 1; i < len(s); i++ {
		if s[i].value != s[i-1].value {
			out = append(out, s[i])
		}
	}
	return out
}

// gaps returns the times between points, in seconds.
func (s series) gaps() []float64 {
	var out []float64
	for i := 1; i < len(s); i++ {
		out = append(out, s[i].at.Sub(s[i-1].at).Seconds())
	}
	return out
}

// slope returns the increase per second between the first and the last change. It ignores other readings, so the step
// size of a counter has no effect.
func (s series) slope() float64 {
	c := s.changes()
	if len(c) < 2 {
		return math.NaN()
	}
	first, last := c[0], c[len(c)-1]
	return (last.value - first.value) / last.at.Sub(first.at).Seconds()
}

// fall returns the number of seconds from the moment until the values have fallen by 90 % of the difference between two
// levels: the level in the second before the moment, and the level at the end.
func (s series) fall(moment time.Time) float64 {
	before, after := s.levels(moment)
	for _, p := range s.between(moment, moment.Add(time.Hour)) {
		if p.value <= before-0.9*(before-after) {
			return p.at.Sub(moment).Seconds()
		}
	}
	return math.NaN()
}

// levels returns the medians of the second before a moment and of the last two seconds.
func (s series) levels(moment time.Time) (before, after float64) {
	if len(s) == 0 {
		return math.NaN(), math.NaN()
	}
	end := s[len(s)-1].at
	return median(s.between(moment.Add(-time.Second), moment).values()), median(s.between(end.Add(-2*time.Second), end).values())
}

// lag returns by how many seconds a counter is late when the work ends: the energy that the counter adds after the
// work, divided by the power of the work.
func (s series) lag(moment time.Time) float64 {
	c := s.changes()
	end := c.between(moment, moment.Add(time.Hour))
	during := c.between(moment.Add(-4*time.Second), moment.Add(-time.Millisecond))
	if len(end) < 2 || len(during) < 2 {
		return math.NaN()
	}
	work, last := during.slope(), during[len(during)-1]
	tail := end.between(end[len(end)-1].at.Add(-3*time.Second), end[len(end)-1].at)
	rest, final := tail.slope(), end[len(end)-1]
	after := final.value - last.value - rest*final.at.Sub(last.at).Seconds()
	return after/(work-rest) - moment.Sub(last.at).Seconds()
}

// median returns NaN if there are no values.
func median(values []float64) float64 { return quantile(values, 0.5) }

func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[int(q*float64(len(sorted)-1)+0.5)]
}

func mean(values []float64) float64 {
	var sum float64
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}
