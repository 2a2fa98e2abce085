package nvml

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// quietTimes measures the power of a GPU in quiet times between kernels, by the driver's buffers of
// power and utilisation samples. On a shared GPU these gaps are usually shorter than the time between
// two readings. The buffers are read seldom, because each takes a call.
//
// nvml.h defines neither the rate of the samples nor the time over which power is averaged. Both
// are derived from the samples.
type quietTimes struct {
	unsupported bool
	due         time.Duration // of the next look, boot clock
	looks       int           // so far
	found       int           // looks with a quiet time
	seen        int64         // the newest power sample of the last look
	averaging   averaging
	scope       agreement
	mixed       mixedTimes
}

const (
	// The buffers are read every eager until enoughQuiet looks had a quiet time or enoughLooks had
	// none, and then every patient.
	eager       = 2 * time.Second
	patient     = 10 * time.Second
	enoughQuiet = 60
	enoughLooks = 600
	// fewestQuiet is the number of power samples of a measurement.
	fewestQuiet = 3
	// lowShare is the quantile of power samples in quiet times that is reported. The clocks and the
	// power of a GPU fall for a while after work.
	lowShare = 0.2
)

// A point is a power sample in watts, or a utilisation sample from 0 to 1, with its time in µs of the
// wall clock.
type point struct {
	at    int64
	value float64
}

// readQuietPower reads the samples, if they are due. In MIG mode the driver has no utilisation
// samples, and a module's counter has more energy than the GPU's power samples.
func (g *gpuReader) readQuietPower(q *inquiry, r *gpu.Reading) {
	t, now := &g.quiet, g.now().Boot
	defer t.scope.remember(r)
	if t.unsupported || now < t.due || g.device.Partitions != nil || g.device.EnergyScope == gpu.ScopeModule {
		return
	}
	t.due = now + eager
	if t.found >= enoughQuiet || t.looks >= enoughLooks {
		t.due = now + patient
	}
	power, err := g.points(q, gonvml.TOTAL_POWER_SAMPLES, float64(g.device.MaxPower)*1.5)
	if err == nil && len(power) > 0 {
		var busy []point
		if busy, err = g.points(q, gonvml.GPU_UTILIZATION_SAMPLES, 1); err == nil {
			t.scope.compare(r, power)
			low := t.measure(power, busy, float64(g.device.MaxPower))
			if g.device.EnergyScope == gpu.ScopeGPU || t.scope.agrees() {
				r.QuietPower = gpu.Watts(low)
			}
		}
	}
	t.unsupported = err != nil && unsupported(err)
}

// points reads a buffer of samples, oldest first, without garbage: values above most.
func (g *gpuReader) points(q *inquiry, kind gonvml.SamplingType, most float64) ([]point, error) {
	rows, err := query(q, "nvmlDeviceGetSamples", func() ([]gonvml.Sample, ret) { return bufferedSamples(g.handle, kind) })
	if err != nil {
		return nil, err
	}
	unit := 0.01
	if kind == gonvml.TOTAL_POWER_SAMPLES {
		unit = 0.001
	}
	points := make([]point, 0, len(rows))
	for _, row := range rows {
		p := point{int64(min(row.TimeStamp, math.MaxInt64)), unit * float64(binary.NativeEndian.Uint32(row.SampleValue[:]))}
		if p.value <= most && p.at > 0 {
			points = append(points, p)
		}
	}
	return inOrder(points), nil
}

// inOrder sorts points by time, without duplicates.
func inOrder(points []point) []point {
	slices.SortFunc(points, func(a, b point) int { return cmp.Compare(a.at, b.at) })
	return slices.CompactFunc(points, func(a, b point) bool { return a.at == b.at })
}

// measure returns the power in quiet times since the last look, 0 if there were none.
func (t *quietTimes) measure(power, busy []point, maxPower float64) float64 {
	t.looks++
	if len(power) > 0 && power[len(power)-1].at < t.seen {
		t.seen = 0 // the wall clock was set back
	}
	power = power[len(power)-len(after(power, t.seen)):]
	if len(power) == 0 {
		return 0
	}
	t.seen = power[len(power)-1].at
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

// after returns the points after a time.
func after(points []point, at int64) []point {
	i, _ := slices.BinarySearchFunc(points, at+1, func(p point, at int64) int { return cmp.Compare(p.at, at) })
	return points[i:]
}

// lowQuantile returns a quantile of values, 0 if there are too few.
func lowQuantile(values []float64, share float64) float64 {
	if len(values) < fewestQuiet {
		return 0
	}
	slices.Sort(values)
	return values[int(math.Round(share*float64(len(values)-1)))]
}

// inGaps returns the power samples in gaps of the GPU's work that are longer than the driver averages
// power. A gap is a run of utilisation samples of 0 %, each of which covers the time since the
// preceding one.
func inGaps(power, busy []point, averaging time.Duration) (quiet []float64) {
	for i := 1; i < len(busy); i++ {
		if busy[i].value > 0 {
			continue
		}
		from := busy[i-1].at
		for i+1 < len(busy) && busy[i+1].value == 0 {
			i++
		}
		for _, p := range after(power, from+averaging.Microseconds()) {
			if p.at > busy[i].at {
				break
			}
			quiet = append(quiet, p.value)
		}
	}
	return quiet
}

// averaging is an upper bound of the time over which the driver averages power. The average of a
// power between 0 and the limit cannot fall faster than the limit in that time, so steep falls
// show that the time is short. The third steepest fall counts, because samples may be garbage.
type averaging struct {
	time  time.Duration
	falls [3]float64 // W/s, the steepest first
}

// longestAveraging is the averaging time without steep falls (nvml.h: "the average power draw over 1
// sec").
const longestAveraging = time.Second

// steepFall is the part of the power limit by which a fall exceeds noise.
const steepFall = 0.05

// learn looks for falls between two higher and two lower samples.
func (a *averaging) learn(power []point, maxPower float64) {
	for i := 2; i+1 < len(power); i++ {
		fall := min(power[i-2].value, power[i-1].value) - max(power[i].value, power[i+1].value)
		took := time.Duration(power[i].at-power[i-1].at) * time.Microsecond
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

// mixedTimes measures the idle power of a GPU whose gaps are shorter than a utilisation sample, if the
// driver reports the power at a moment. Then the share of high power samples is the busy share of
// the utilisation samples, and the low ones are the idle power. Otherwise the shares differ: power
// that is averaged over a mix of work and gaps is neither.
type mixedTimes struct {
	power []float64
	busy  float64 // sum
}

const (
	// momentary is the longest averaging time for which power samples are of a moment.
	momentary = 60 * time.Millisecond
	// enoughMixed is the number of power samples for a comparison of the shares.
	enoughMixed = 300
	// The busy share of a mixed time.
	leastMixed, mostMixed = 0.03, 0.9
	// aboveFloor is the factor by which the power of work exceeds the idle power, at least.
	aboveFloor = 1.1
	// shareTolerance is the tolerance of the busy share: the driver rounds, and few samples vary.
	shareTolerance = 0.15
)

// learn adds power samples of partly busy utilisation samples. It returns an idle power once it
// has enough samples and their shares match.
func (m *mixedTimes) learn(power, busy []point, averaging time.Duration) float64 {
	if averaging > momentary {
		*m = mixedTimes{}
		return 0
	}
	for i := 1; i < len(busy); i++ {
		if u := busy[i].value; u >= leastMixed && u <= mostMixed {
			for _, p := range after(power, busy[i-1].at) {
				if p.at > busy[i].at {
					break
				}
				m.power, m.busy = append(m.power, p.value), m.busy+u
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

// agreement compares the energy counter with the power samples: a counter of unknown scope may cover
// more than the GPU, such as a CPU, and the idle power of the GPU is not that of its counter.
type agreement struct {
	at               gpu.Instant // of the last reading
	energy           gpu.Millijoules
	counted, sampled float64 // J
}

const (
	// disagreement is the relative difference from which the two are of different parts.
	disagreement = 0.15
	// forgetting is the factor by which an earlier comparison counts less.
	forgetting = 0.98
)

// remember stores the reading for the next comparison.
func (a *agreement) remember(r *gpu.Reading) {
	if a.at = (gpu.Instant{}); r.Energy != nil {
		a.at, a.energy = r.At, *r.Energy
	}
}

// compare adds the energy since the last reading, by the counter and by the power samples.
func (a *agreement) compare(r *gpu.Reading, power []point) {
	if a.at.IsZero() || r.Energy == nil || *r.Energy < a.energy {
		return
	}
	took, sum, n := r.At.Sub(a.at), 0.0, 0.0
	for _, p := range after(power, r.At.Wall.Add(-took).UnixMicro()) {
		sum, n = sum+p.value, n+1
	}
	if n < fewestQuiet {
		return
	}
	a.counted = forgetting*a.counted + (*r.Energy - a.energy).Joules()
	a.sampled = forgetting*a.sampled + sum/n*took.Seconds()
}

func (a *agreement) agrees() bool {
	return a.sampled > 0 && math.Abs(a.counted/a.sampled-1) <= disagreement
}
