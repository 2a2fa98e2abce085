package simnode

import "time"

// Pattern describes the activity of a process on a GPU over time, in percent. Without a Period, the activity is always
// High. If On is set, every period begins with High for the time On, followed by Low. Otherwise the activity rises from
// Low to High in every period.
type Pattern struct {
	Low, High  int // percent
	On, Period time.Duration
}

// Constant returns a constant pattern.
func Constant(percent int) Pattern { return Pattern{High: percent} }

// Duty returns a pattern that is busy in the first part of every period and then idle.
func Duty(percent int, on, period time.Duration) Pattern {
	return Pattern{High: percent, On: on, Period: period}
}

// Ramp returns a pattern whose activity changes linearly between two percentages in every period.
func Ramp(from, to int, period time.Duration) Pattern {
	return Pattern{Low: from, High: to, Period: period}
}

func (p Pattern) at(t time.Duration) int {
	if p.Period == 0 {
		return p.High
	}
	phase := t % p.Period
	switch {
	case p.On == 0:
		return p.Low + int(int64(p.High-p.Low)*int64(phase)/int64(p.Period))
	case phase < p.On:
		return p.High
	default:
		return p.Low
	}
}
