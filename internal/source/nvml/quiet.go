package nvml

import (
	"encoding/binary"
	"math"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source/nvml/quiet"
)

// quietTimes measures the power of one GPU in quiet times between kernels. A look is one reading of the driver's sample
// buffers.
type quietTimes struct {
	quiet.Times
	unsupported bool
	sampled     bool          // set if the power samples of the last look can be used to find quiet times
	due         time.Duration // boot-clock time of the next look
	scope       agreement
}

// readQuietPower does nothing in MIG mode, because the driver then has no utilisation samples. It also does nothing if
// the energy counter covers a module. A module uses more energy than the GPU's power samples show.
func (g *gpuReader) readQuietPower(q *inquiry, r *gpu.Reading) {
	t, now := &g.quiet, g.now().Boot
	defer t.scope.remember(r)
	if t.unsupported || g.device.Partitions != nil || g.device.EnergyScope == gpu.ScopeModule {
		return
	}
	if now >= t.due {
		t.due = now + t.Pause()
		g.measureQuietPower(q, r)
	}
	r.QuietSampled = t.sampled
}

func (g *gpuReader) measureQuietPower(q *inquiry, r *gpu.Reading) {
	t := &g.quiet
	var busy []quiet.Point
	power, err := g.points(q, gonvml.TOTAL_POWER_SAMPLES, float64(g.device.MaxPower)*1.5)
	if err == nil && len(power) > 0 {
		busy, err = g.points(q, gonvml.GPU_UTILIZATION_SAMPLES, 1)
	}
	t.unsupported = err != nil && unsupported(err)
	if t.sampled = err == nil && len(power) > 0 && len(busy) > 0; !t.sampled {
		return
	}
	t.scope.compare(r, power)
	low := t.Measure(power, busy, float64(g.device.MaxPower))
	if t.sampled = g.device.EnergyScope == gpu.ScopeGPU || t.scope.agrees(); t.sampled {
		r.QuietPower = gpu.Watts(low)
	}
}

// points drops values above most, because they are invalid.
func (g *gpuReader) points(q *inquiry, kind gonvml.SamplingType, most float64) ([]quiet.Point, error) {
	rows, err := query(q, "nvmlDeviceGetSamples", func() ([]gonvml.Sample, ret) { return bufferedSamples(g.handle, kind) })
	if err != nil {
		return nil, err
	}
	unit := 0.01
	if kind == gonvml.TOTAL_POWER_SAMPLES {
		unit = 0.001
	}
	points := make([]quiet.Point, 0, len(rows))
	for _, row := range rows {
		p := quiet.Point{At: int64(min(row.TimeStamp, math.MaxInt64)), Value: unit * float64(binary.NativeEndian.Uint32(row.SampleValue[:]))}
		if p.Value <= most && p.At > 0 {
			points = append(points, p)
		}
	}
	return quiet.InOrder(points), nil
}

// agreement compares the energy counter with the power samples. A counter of unknown scope may cover a CPU in
// addition to the GPU. The idle power from power samples would then be too low for the counter.
type agreement struct {
	at               gpu.Instant // values of the last reading
	energy           gpu.Millijoules
	counted, sampled float64 // J
}

const (
	// disagreement is the relative difference above which the counter and the samples are assumed to
	// cover different hardware.
	disagreement = 0.15
	// forgetting is the factor by which the weight of earlier comparisons decreases with each
	// comparison.
	forgetting = 0.98
)

func (a *agreement) remember(r *gpu.Reading) {
	if a.at = (gpu.Instant{}); r.Energy != nil {
		a.at, a.energy = r.At, *r.Energy
	}
}

// compare adds the energy since the last reading to two sums: the energy according to the counter, and the energy
// according to the power samples.
func (a *agreement) compare(r *gpu.Reading, power []quiet.Point) {
	if a.at.IsZero() || r.Energy == nil || *r.Energy < a.energy {
		return
	}
	took, sum, n := r.At.Sub(a.at), 0.0, 0.0
	for _, p := range quiet.After(power, r.At.Wall.Add(-took).UnixMicro()) {
		sum, n = sum+p.Value, n+1
	}
	if n < quiet.FewestSamples {
		return
	}
	a.counted = forgetting*a.counted + (*r.Energy - a.energy).Joules()
	a.sampled = forgetting*a.sampled + sum/n*took.Seconds()
}

func (a *agreement) agrees() bool {
	return a.sampled > 0 && math.Abs(a.counted/a.sampled-1) <= disagreement
}
