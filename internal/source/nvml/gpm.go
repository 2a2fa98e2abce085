package nvml

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/source"
)

// A gpm measures the activity of a GPU's MIG instances through the driver's GPU performance monitoring (GPM), which
// Hopper and newer GPUs support. It exists as long as the driver session, even while the GPU is lost. It is used only
// in the GPU's lanes.
//
// The metric is SM activity: the share of time in which the multiprocessors have a resident warp. Energy depends on the
// amount of work. The activity of the graphics engine is unsuitable, because it is the same for a small kernel and a
// large kernel. It is assumed, but not verified on hardware, that the metric is relative to the instance and not to the
// GPU. GPM streaming is a setting of the host, which this package does not change.
type gpm struct {
	offered *bool // nil before the first call
	// pairs contains the samples of each instance. The key includes all properties of the instance,
	// because ids are reused.
	pairs map[string]*pair
	moved bool // set if the last measurement took samples
	// longest is the longest time over which the activity of instances may be averaged.
	longest   time.Duration
	profiling bool
	// whole contains the samples of the GPU itself; nil if the GPU is not profiled. While lane is busy, only the call
	// in lane may use whole and offered.
	whole *pair
	lane  lane.Lane[profiled]
	// instances is the lane in which instances are measured. While it is busy, only the call in it may use pairs, moved
	// and offered. At most one of the two lanes is busy.
	instances lane.Lane[measured]
}

// A pair contains the two newest samples of an instance's counters, newest first.
type pair struct {
	instance string // GPU instance id, or empty for a whole GPU
	samples  [2]gonvml.GpmSample
	taken    [2]time.Duration // boot-clock times of the samples; 0 if a sample was not taken
	// profile integrates the activities of the instance. before contains the sums of profile at the older sample.
	profile profiler
	before  [gpu.NumActivities]float64
}

func (p *pair) swap() {
	p.samples[0], p.samples[1] = p.samples[1], p.samples[0]
	p.taken[0], p.taken[1] = p.taken[1], p.taken[0]
}

// gpmRefresh is the interval at which the driver reads its counters (nvml.h). The time between two samples must be
// longer than this interval.
const gpmRefresh = 100 * time.Millisecond

type measured struct {
	of       *gpuReader
	began    time.Duration // boot clock
	samples  []gpu.InstanceSample
	known    bool
	profiles []gpu.InstanceProfile
}

// readInstances reads the activity of each instance since the last reading. A GPM call may hang. To avoid a delay of
// the GPU's other values, readInstances uses a separate lane and waits for only a part of [Config.CallTimeout]. While a
// call hangs, the activity is unknown.
func (d *session) readInstances(g *gpuReader, q *inquiry, r *gpu.Reading) {
	pairs := g.gpm
	if m, ok := pairs.instances.Poll(); ok { // result of a late call
		pairs.accept(g, m, r)
	}
	if pairs.instances.Busy() || pairs.lane.Busy() || q.lost != nil { // the lane may still run a call that began before MIG mode was enabled
		return
	}
	if g.device.Partitions == nil {
		pairs.free(q)
		return
	}
	if g.now().Boot-pairs.newest() <= gpmRefresh {
		return
	}
	instances := g.device.Partitions.Instances
	pairs.settle()
	call(d, &pairs.instances, func() measured { return g.measureInstances(instances) })
	ctx, cancel := context.WithTimeout(context.Background(), d.cfg.CallTimeout/4)
	defer cancel()
	if m, ok := pairs.instances.Take(ctx); ok {
		pairs.accept(g, m, r)
	}
}

func (g *gpm) accept(of *gpuReader, m measured, r *gpu.Reading) {
	switch {
	case m.of != of:
		g.forget()
	case of.now().Boot-m.began > source.MaxLate:
		g.undo()
	default:
		r.Instances, r.InstancesKnown = append(r.Instances, m.samples...), m.known
		if m.profiles != nil {
			r.InstanceProfiles = m.profiles
		}
	}
}

// measureInstances samples all instances before it computes any activity, so that all activities cover the same time.
// It runs in the lane [gpm.instances].
func (g *gpuReader) measureInstances(instances []gpu.Partition) measured {
	q, pairs, m := &inquiry{lib: g.lib}, g.gpm, measured{of: g, began: g.now().Boot}
	pairs.keep(q, instances)
	if !pairs.offers(q, g.handle) {
		return m
	}
	pairs.moved = true
	for _, p := range pairs.pairs {
		p.before = p.profile.sums
	}
	for _, i := range instances {
		if err := g.sample(q, i); err != nil {
			pairs.forget()
			return m
		}
	}
	for _, i := range instances {
		s, err := pairs.measure(q, i)
		if err != nil {
			m.samples = nil
			return m
		}
		m.samples = append(m.samples, s)
	}
	m.known = len(instances) > 0
	if pairs.profiling {
		m.profiles = pairs.profileInstances(&inquiry{lib: q.lib, lost: q.lost}) // errors of profiles do not affect the activity
	}
	return m
}

// offers reports whether the GPU supports GPM. It stores the driver's answer.
func (g *gpm) offers(q *inquiry, h device) bool {
	if g.offered == nil {
		s, err := query(q, "nvmlGpmQueryDeviceSupport", h.GpmQueryDeviceSupport)
		if err != nil && !unsupported(err) {
			return false
		}
		g.offered = new(err == nil && s.IsSupportedDevice != 0 && q.lib.has("nvmlGpmSampleFree"))
	}
	return *g.offered
}

func identity(i gpu.Partition) string { return fmt.Sprint(i) }

func (g *gpm) newest() (at time.Duration) {
	for _, p := range g.pairs {
		at = max(at, p.taken[0])
	}
	return at
}

func (g *gpuReader) sample(q *inquiry, i gpu.Partition) error {
	p, err := g.gpm.pair(q, i)
	if err != nil {
		return err
	}
	id, err := strconv.Atoi(i.ID)
	if err != nil {
		return err
	}
	p.swap()
	_, err = query(q, "nvmlGpmMigSampleGet", func() (struct{}, ret) {
		return struct{}{}, g.handle.GpmMigSampleGet(id, p.samples[0])
	})
	p.taken[0] = g.now().Boot
	return err
}

func (g *gpm) pair(q *inquiry, i gpu.Partition) (*pair, error) {
	if p, ok := g.pairs[identity(i)]; ok {
		return p, nil
	}
	p, err := newPair(q)
	if err != nil {
		return nil, err
	}
	p.instance = i.ID
	if g.pairs == nil {
		g.pairs = make(map[string]*pair)
	}
	g.pairs[identity(i)] = p
	return p, nil
}

func newPair(q *inquiry) (*pair, error) {
	p := &pair{}
	for k := range p.samples {
		s, err := query(q, "nvmlGpmSampleAlloc", q.lib.GpmSampleAlloc)
		if err != nil {
			p.free(q)
			return nil, err
		}
		p.samples[k] = s
	}
	return p, nil
}

var errNotOffered = errors.New("GPM is not supported")

var errNoBase = errors.New("no earlier sample")

// maxInterval is the longest time over which the activity of instances may be averaged. If two ticks are longer than
// maxInterval, the limit is two ticks.
const maxInterval = 10 * time.Second

func (g *gpm) measure(q *inquiry, i gpu.Partition) (gpu.InstanceSample, error) {
	p := g.pairs[identity(i)]
	span := gpu.Span{From: p.taken[1], To: p.taken[0]}
	if span.From == 0 || span.Len() > g.longest {
		return gpu.InstanceSample{}, errNoBase
	}
	percent, err := query(q, "nvmlGpmMetricsGet", p.activity)
	return gpu.InstanceSample{Instance: i.ID, Span: span, SM: min(percent/100, 1)}, err
}

func (g *gpm) profileInstances(q *inquiry) (all []gpu.InstanceProfile) {
	for _, p := range g.pairs {
		metrics, err := query(q, "nvmlGpmMetricsGet", p.metrics)
		if err != nil {
			continue
		}
		p.profile.integrate(metrics, gpu.Span{From: p.taken[1], To: p.taken[0]})
		all = append(all, gpu.InstanceProfile{Instance: p.instance, Profile: p.profile.latest})
	}
	slices.SortFunc(all, func(a, b gpu.InstanceProfile) int { return strings.Compare(a.Instance, b.Instance) })
	return all
}

// rounding is the tolerance, in percent, by which a quotient of counters may exceed 100.
const rounding = 1

// activity returns NVML_GPM_METRIC_SM_UTIL in percent. The metric has a return code of its own, and
// is NaN if the driver divides by zero.
func (p *pair) activity() (float64, ret) {
	m := []metric{newMetric(gonvml.GPM_METRIC_SM_UTIL)}
	if r := gpmMetrics(p.samples[1], p.samples[0], m); r != gonvml.SUCCESS {
		return 0, r
	}
	if r := ret(m[0].result); r != gonvml.SUCCESS {
		return 0, r
	}
	value := float64(m[0].value)
	if !(value >= 0 && value <= 100+rounding) {
		return 0, gonvml.ERROR_NO_DATA
	}
	return value, gonvml.SUCCESS
}

// settle makes the samples of the last reading final, so that undo does not remove them.
func (g *gpm) settle() {
	if !g.instances.Busy() {
		g.moved = false
	}
}

// undo removes the samples of the last reading, so that the next reading also covers the time of the last reading.
func (g *gpm) undo() {
	if g.instances.Busy() || !g.moved {
		return
	}
	g.moved = false
	for _, p := range g.pairs {
		p.swap()
		p.taken[1] = 0
		p.profile.sums = p.before
	}
}

// forget discards all samples, so that the next sample of every instance counts as the instance's first sample.
func (g *gpm) forget() {
	for _, p := range g.pairs {
		p.taken = [2]time.Duration{}
	}
}

func (g *gpm) keep(q *inquiry, instances []gpu.Partition) {
	left := make(map[string]*pair, len(instances))
	for _, i := range instances {
		if p, ok := g.pairs[identity(i)]; ok {
			left[identity(i)] = p
			delete(g.pairs, identity(i))
		}
	}
	g.free(q)
	g.pairs = left
}

// free must be called before the driver is shut down, because the driver does not free the samples.
func (g *gpm) free(q *inquiry) {
	for _, p := range g.pairs {
		p.free(q)
	}
	clear(g.pairs)
}

func (g *gpm) freeWhole(q *inquiry) {
	if g.whole != nil {
		g.whole.free(q)
		g.whole = nil
	}
}

// lost frees all buffers that no call in flight uses. The other buffers are used again when the GPU returns.
func (g *gpm) lost(q *inquiry) {
	if !g.instances.Busy() {
		g.free(q)
	}
	if !g.lane.Busy() {
		g.freeWhole(q)
	}
}

// No call may be in flight.
func (g *gpm) release(q *inquiry) {
	g.free(q)
	g.freeWhole(q)
}

func (p *pair) free(q *inquiry) {
	for _, s := range p.samples {
		if s != nil && q.lib.has("nvmlGpmSampleFree") {
			_ = s.Free()
		}
	}
}
