// Package quiet measures the power of a GPU in quiet times between kernels. On a shared GPU, the gaps between kernels
// are usually shorter than the time between two readings. Therefore the package uses the driver's buffers of power and
// utilisation samples.
//
// nvml.h defines neither the rate of the samples nor the time over which power is averaged. The
// package derives both from the samples.
package quiet

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// Times measures the power of one GPU in quiet times. The buffers should be read only at the interval that Pause
// returns, because each reading calls the driver.
type Times struct {
	looks     int   // number of looks so far
	found     int   // number of looks that found a quiet time
	seen      int64 // time of the newest power sample at the last look
	averaging averaging
	mixed     mixedTimes
}

const (
	// A look is one reading of the buffers. The interval between looks is eager at first. It is patient after
	// enoughQuiet looks with a quiet time, and also after enoughLooks looks.
	eager       = 2 * time.Second
	patient     = 10 * time.Second
	enoughQuiet = 60
	enoughLooks = 600
	// FewestSamples is the minimum number of power samples in a measurement.
	FewestSamples = 3
	// lowShare selects a quantile: the reported power is this quantile of the power samples in quiet times. A low
	// quantile is used because the clocks and the power of a GPU decrease slowly after work.
	lowShare = 0.2
)

// A Point is a power sample in watts, or a utilisation sample from 0 to 1. At is its wall-clock time in µs.
type Point struct {
	At    int64
	Value float64
}

// Pause returns the time until the next look.
func (t *Times) Pause() time.Duration {
	if t.found >= enoughQuiet || t.looks >= enoughLooks {
		return patient
	}
	return eager
}

// InOrder sorts points by time and removes duplicates.
func InOrder(points []Point) []Point {
	slices.SortFunc(points, func(a, b Point) int { return cmp.Compare(a.At, b.At) })
	return slices.CompactFunc(points, func(a, b Point) bool { return a.At == b.At })
}

// Measure returns the power in quiet times since the last look, or 0 if there were none.
func (t *Times) Measure(power, busy []Point, maxPower float64) float64 {
	t.looks++
	if len(power) > 0 && power[len(power)-1].At < t.seen {
		t.seen = 0 // the wall clock was set back
	}
	power = power[len(power)-len(After(power, t.seen)):]
	if len(power) == 0 {
		return 0
	}
	t.seen = power[len(power)-1].At
	t.averaging.learn(power, maxPower)
	low := lowQuantile(inGaps(power, busy, t.averaging.time), lowShare)
	if low == 0 {
		low = t.mixed.learn(power, busy, t.averaging.time)
	}
	if low > 0 {
		t.found++
	}
	return low
}

// After returns the points that are later than a time.
func After(points []Point, at int64) []Point {
	i, _ := slices.BinarySearchFunc(points, at+1, func(p Point, at int64) int { return cmp.Compare(p.At, at) })
	return points[i:]
}

// lowQuantile returns 0 if there are too few values.
func lowQuantile(values []float64, share float64) float64 {
	if len(values) < FewestSamples {
		return 0
	}
	slices.Sort(values)
	return values[int(math.Round(share*float64(len(values)-1)))]
}

// inGaps returns the power samples in gaps between the GPU's work. It omits the beginning of each gap,
// because the driver's average still includes work there. A gap is a sequence of utilisation samples of 0 %.
// Each utilisation sample covers the time since the preceding sample.
func inGaps(power, busy []Point, averaging time.Duration) (quiet []float64) {
	for i := 1; i < len(busy); i++ {
		if busy[i].Value > 0 {
			continue
		}
		from := busy[i-1].At
		for i+1 < len(busy) && busy[i+1].Value == 0 {
			i++
		}
		for _, p := range After(power, from+averaging.Microseconds()) {
			if p.At > busy[i].At {
				break
			}
			quiet = append(quiet, p.Value)
		}
	}
	return quiet
}

// averaging contains an upper bound for the time over which the driver averages power. The power is between 0 and the
// power limit, so its average cannot fall by more than the limit within the averaging time. Therefore a steep fall
// shows that the averaging time is short. The third steepest fall is used, because single samples may be invalid.
type averaging struct {
	time  time.Duration
	falls [3]float64 // W/s, steepest fall first
}

// longestAveraging is the averaging time that is assumed if there are no steep falls (nvml.h: "the average
// power draw over 1 sec").
const longestAveraging = time.Second

// steepFall is the smallest fall that is not treated as noise, as a fraction of the power limit.
const steepFall = 0.05

func (a *averaging) learn(power []Point, maxPower float64) {
	for i := 2; i+1 < len(power); i++ {
		fall := power[i-1].Value - max(power[i].Value, power[i+1].Value)
		took := time.Duration(power[i].At-power[i-1].At) * time.Microsecond
		if fall < steepFall*maxPower || took > longestAveraging {
			continue
		}
		slope := fall / took.Seconds()
		if k := slices.IndexFunc(a.falls[:], func(f float64) bool { return slope > f }); k >= 0 {
			copy(a.falls[k+1:], a.falls[k:])
			a.falls[k] = slope
		}
	}
	a.time = longestAveraging
	if steep := a.falls[2]; steep > 0 {
		a.time = min(a.time, time.Duration(maxPower/steep*float64(time.Second)))
	}
}

// mixedTimes measures the idle power of a GPU if the gaps between its work are shorter than a utilisation sample.
// This is possible if the driver reports momentary power. In this case the share of high power samples equals the
// busy share in the utilisation samples, and low power samples show the idle power. If the driver averages power
// over a mix of work and gaps, the average is neither high nor low. Then the share of high power samples differs
// from the busy share.
type mixedTimes struct {
	power []float64
	busy  float64 // sum of the busy shares for all power samples
}

const (
	// momentary is the longest averaging time with which a power sample is treated as momentary
	// power.
	momentary = 60 * time.Millisecond
	// enoughMixed is the number of power samples that are needed to compare the shares.
	enoughMixed = 300
	// A utilisation sample is used only if its busy share is between these limits.
	leastMixed, mostMixed = 0.03, 0.9
	// aboveFloor is the minimum factor by which the power of work exceeds the idle power.
	aboveFloor = 1.1
	// shareTolerance is the tolerance for the busy share. The driver rounds the busy share, and the share of
	// high samples varies if there are few samples.
	shareTolerance = 0.15
)

// learn adds the power samples that fall into partly busy utilisation samples. It returns an idle
// power when there are enough samples and the shares match, otherwise 0.
func (m *mixedTimes) learn(power, busy []Point, averaging time.Duration) float64 {
	if averaging > momentary {
		*m = mixedTimes{}
		return 0
	}
	for i := 1; i < len(busy); i++ {
		if u := busy[i].Value; u >= leastMixed && u <= mostMixed {
			for _, p := range After(power, busy[i-1].At) {
				if p.At > busy[i].At {
					break
				}
				m.power, m.busy = append(m.power, p.Value), m.busy+u
			}
		}
	}
	n := float64(len(m.power))
	if n < enoughMixed {
		return 0
	}
	share := m.busy / n
	low := lowQuantile(m.power, lowShare*(1-share))
	high := 0.0
	for _, p := range m.power {
		if p > aboveFloor*low {
			high++
		}
	}
	*m = mixedTimes{}
	if noise := 2 * math.Sqrt(share*(1-share)/n); math.Abs(high/n-share) > shareTolerance*share+noise {
		return 0
	}
	return low
}
