package main

import (
	"math"
	"testing"
	"time"
)

var epoch = time.Unix(1_800_000_000, 0)

// boxcar returns readings every 10 ms. The power is 500 W for five seconds and then 100 W. Each reading is the mean
// over the given time, computed with a formula.
func boxcar(average time.Duration) (s series) {
	for ms := range 15_000 {
		if ms%10 != 0 {
			continue
		}
		share := math.Max(0, math.Min(1, (5-float64(ms)/1000+average.Seconds())/average.Seconds()))
		s = append(s, point{epoch.Add(time.Duration(ms) * time.Millisecond), 100 + 400*share})
	}
	return s
}

func TestFall(t *testing.T) {
	for _, average := range []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second} {
		want := 0.9 * average.Seconds()
		if got := boxcar(average).fall(epoch.Add(5 * time.Second)); math.Abs(got-want) > 0.02 {
			t.Errorf("mean over %v: fell in %.2f s, want %.2f", average, got, want)
		}
	}
}

// counter returns readings of an energy counter every 7 ms. The counter is updated once per step and with the given
// delay. The power is 500 W for five seconds and then 100 W.
func counter(step, delay time.Duration) (s series) {
	for ms := 0; ms < 15_000; ms += 7 {
		counted := (time.Duration(ms)*time.Millisecond - delay).Truncate(step).Seconds()
		s = append(s, point{epoch.Add(time.Duration(ms) * time.Millisecond), 1000 + 500*math.Min(counted, 5) + 100*math.Max(0, counted-5)})
	}
	return s
}

func TestCounter(t *testing.T) {
	for _, step := range []time.Duration{20 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond} {
		for _, delay := range []time.Duration{0, 300 * time.Millisecond, 900 * time.Millisecond} {
			s, end := counter(step, delay), epoch.Add(5*time.Second)
			if got := median(s.changes().gaps()); math.Abs(got-step.Seconds()) > 0.008 {
				t.Errorf("step of %v: median %.3f s", step, got)
			}
			if got := s.between(epoch.Add(2*time.Second), end).slope(); math.Abs(got-500) > 5 {
				t.Errorf("step of %v: %.1f W, want 500", step, got)
			}
			if got := s.lag(end); math.Abs(got-delay.Seconds()) > 0.02 {
				t.Errorf("step of %v, delay %v: lag %.3f s", step, delay, got)
			}
		}
	}
}

func TestTooFewReadings(t *testing.T) {
	s := series{{epoch, 1}}
	for name, got := range map[string]float64{
		"fall": s.fall(epoch.Add(time.Second)), "lag": s.lag(epoch), "slope": s.slope(), "median": median(s.gaps()), "no level": series(nil).fall(epoch),
	} {
		if !math.IsNaN(got) {
			t.Errorf("%s of one reading: %v, want NaN", name, got)
		}
	}
}
