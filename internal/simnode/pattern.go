package simnode

import "time"

// Pattern is how busy a process keeps a GPU over time, in percent. Without a
// period it is High for ever; with On it is High for the first part of every
// period and Low for the rest; else it runs from Low to High in every period.
type Pattern struct {
	Low, High  int // percent
	On, Period time.Duration
}

// Constant is the same all the time.
func Constant(percent int) Pattern { return Pattern{High: percent} }

// Duty works for the first part of every period and then rests.
func Duty(percent int, on, period time.Duration) Pattern {
	return Pattern{High: percent, On: on, Period: period}
}

// Ramp goes evenly from one percentage to another in every period.
func Ramp(from, to int, period time.Duration) Pattern {
	return Pattern{Low: from, High: to, Period: period}
}

// at returns the percentage at a time since the start.
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
