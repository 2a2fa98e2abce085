package nvml

import (
	"context"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A profiler integrates the activities that GPM measures for a GPU or a MIG instance. The activities of MIG instances
// are measured in the lane [gpm.instances]. The activities of a GPU that is not in MIG mode are measured in [gpm.lane].
type profiler struct {
	// retryAt is the boot-clock time until which the driver is not called after an error.
	retryAt time.Duration
	sums    [gpu.NumActivities]float64
	// latest is nil if there is no profile. The profile is replaced and never modified.
	latest *gpu.Profile
}

// profileMetrics contains the GPM metrics (nvml.h, nvmlGpmMetricId_t) with their units. The driver reports activities
// in percent and rates in MiB/s. The activity of engines is the average over consecutive metrics, one for each engine.
var profileMetrics = [gpu.NumProfileMetrics]struct {
	id      gonvml.GpmMetricId
	engines int
	unit    float64
}{
	gpu.GraphicsActive:     {gonvml.GPM_METRIC_GRAPHICS_UTIL, 1, 0.01},
	gpu.SMActive:           {gonvml.GPM_METRIC_SM_UTIL, 1, 0.01},
	gpu.SMOccupancy:        {gonvml.GPM_METRIC_SM_OCCUPANCY, 1, 0.01},
	gpu.TensorActive:       {gonvml.GPM_METRIC_ANY_TENSOR_UTIL, 1, 0.01},
	gpu.DRAMActive:         {gonvml.GPM_METRIC_DRAM_BW_UTIL, 1, 0.01},
	gpu.FP64Active:         {gonvml.GPM_METRIC_FP64_UTIL, 1, 0.01},
	gpu.FP32Active:         {gonvml.GPM_METRIC_FP32_UTIL, 1, 0.01},
	gpu.FP16Active:         {gonvml.GPM_METRIC_FP16_UTIL, 1, 0.01},
	gpu.DecoderActive:      {gonvml.GPM_METRIC_NVDEC_0_UTIL, 8, 0.01},
	gpu.JPEGActive:         {gonvml.GPM_METRIC_NVJPG_0_UTIL, 8, 0.01},
	gpu.OpticalFlowActive:  {gonvml.GPM_METRIC_NVOFA_0_UTIL, 2, 0.01},
	gpu.PCIeTransmitRate:   {gonvml.GPM_METRIC_PCIE_TX_PER_SEC, 1, 1 << 20},
	gpu.PCIeReceiveRate:    {gonvml.GPM_METRIC_PCIE_RX_PER_SEC, 1, 1 << 20},
	gpu.NVLinkTransmitRate: {gonvml.GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC, 1, 1 << 20},
	gpu.NVLinkReceiveRate:  {gonvml.GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC, 1, 1 << 20},
}

// maxProfiled is the longest interval over which an average is integrated. In a longer interval,
// counters of the GPU may wrap.
const maxProfiled = time.Minute

// maxRate is higher than the transfer rate of any GPU's links, in bytes per second.
const maxRate = 1e14

// maxSampling is the longest time that a sample may take. The driver reads the counters at an unknown moment of the
// call, so the time of a slower sample is too uncertain.
const maxSampling = time.Second

type profiled struct {
	of     *gpuReader
	result profiler
}

// A GPM call may hang. To avoid a delay of the GPU's other values, readProfile uses a separate lane and waits for only
// a part of [Config.CallTimeout]. While a call hangs, there is no profile.
func (d *session) readProfile(g *gpuReader) {
	pairs := g.gpm
	if p, ok := pairs.lane.Poll(); ok && p.of == g { // result of a late call
		g.profile = p.result
	}
	g.profile.latest = nil
	if g.device.Partitions != nil {
		if !pairs.lane.Busy() {
			pairs.freeWhole(&inquiry{lib: d.lib}) // the driver does not document samples of a whole GPU in MIG mode
		}
		return
	}
	if pairs.instances.Busy() {
		return // a call that began in MIG mode has not returned
	}
	x := g.profile
	call(d, &pairs.lane, func() profiled { return profiled{g, g.measureProfile(x)} })
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.CallTimeout/4)
	defer cancel()
	if p, ok := pairs.lane.Take(ctx); ok && p.of == g {
		g.profile = p.result
	}
}

// After an error, measureProfile calls the driver again only after reaskAfter. It runs in the lane for the GPU's
// profile.
func (g *gpuReader) measureProfile(x profiler) profiler {
	now := g.now().Boot
	if now < x.retryAt {
		return x
	}
	if x.retryAt > 0 {
		x.retryAt, g.gpm.offered = 0, nil
	}
	q := &inquiry{lib: g.lib}
	if err := g.sampleWhole(q, &x); err != nil {
		x.retryAt = now + reaskAfter
		g.gpm.freeWhole(q)
	}
	return x
}

func (g *gpuReader) sampleWhole(q *inquiry, x *profiler) error {
	if !g.gpm.offers(q, g.handle) {
		return errNotOffered
	}
	if g.gpm.whole == nil {
		p, err := newPair(q)
		if err != nil {
			return err
		}
		g.gpm.whole = p
	}
	p, began := g.gpm.whole, g.now().Boot
	if began-p.taken[0] <= gpmRefresh {
		return nil
	}
	p.swap()
	p.taken[0] = 0
	_, err := query(q, "nvmlGpmSampleGet", func() (struct{}, ret) { return struct{}{}, g.handle.GpmSampleGet(p.samples[0]) })
	if err != nil {
		return err
	}
	now := g.now().Boot
	if now-began > maxSampling {
		return nil
	}
	p.taken[0] = now
	span := gpu.Span{From: p.taken[1], To: now}
	if span.From == 0 || span.Len() > maxProfiled {
		return nil
	}
	metrics, err := query(q, "nvmlGpmMetricsGet", p.metrics)
	if err == nil {
		x.integrate(metrics, span)
	}
	return err
}

func (p *pair) metrics() ([]metric, ret) {
	metrics := make([]metric, 0, len(profileMetrics))
	for _, m := range profileMetrics {
		for engine := range m.engines {
			metrics = append(metrics, newMetric(m.id+gonvml.GpmMetricId(engine)))
		}
	}
	return metrics, gpmMetrics(p.samples[1], p.samples[0], metrics)
}

// integrate ignores impossible values.
func (x *profiler) integrate(metrics []metric, span gpu.Span) {
	p := &gpu.Profile{Span: span}
	for i, m := range profileMetrics {
		engines := metrics[:m.engines]
		metrics = metrics[m.engines:]
		activity, limit := gpu.ProfileMetric(i) < gpu.NumActivities, 1+rounding/100.0
		if !activity {
			limit = maxRate
		}
		v, ok := average(engines, m.unit, limit)
		if !ok {
			continue
		}
		if activity {
			v = min(v, 1)
			x.sums[i] += v * span.Len().Seconds()
			p.Seconds[i] = new(x.sums[i])
		}
		p.Last[i] = &v
	}
	x.latest = p
}

// average ignores engines that the GPU does not have. The average is unknown if the value of an engine is impossible.
func average(engines []metric, unit, limit float64) (float64, bool) {
	sum, n := 0.0, 0
	for _, e := range engines {
		switch v := float64(e.value) * unit; {
		case unsupported(ret(e.result)):
			continue
		case ret(e.result) != gonvml.SUCCESS || !(v >= 0 && v <= limit):
			return 0, false
		default:
			sum, n = sum+v, n+1
		}
	}
	return sum / float64(max(n, 1)), n > 0
}
