package amd

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type sums struct {
	at                gpu.Instant
	activity, samples value
	busy              [maxPartitions]busySums
}

func sumsOf(m metrics, at gpu.Instant) sums {
	return sums{at: at, activity: m.activitySum, samples: m.samples, busy: m.busy}
}

// average returns the average activity between two sums, from 0 to 1. The average is unknown if the sum decreased, or
// if the sum increased by more than a busy GPU can cause.
func average(from, to value, samples uint64) (float64, bool) {
	if !from.ok || !to.ok || samples == 0 || to.n < from.n {
		return 0, false
	}
	share := float64(to.n-from.n) / float64(samples) / 100
	// Each of the two sums may have been rounded.
	if share > 1+1/float64(samples) {
		return 0, false
	}
	return min(share, 1), true
}

func (s sums) count(later sums) uint64 {
	if !s.samples.ok || !later.samples.ok || later.samples.n < s.samples.n {
		return 0
	}
	return later.samples.n - s.samples.n
}

// readActivity adds the activity of the GPU since the last reading. It also adds the activity of each partition. On a
// GPU without partitions, it adds the activity of each process.
func (r *reader) readActivity(out *gpu.Reading, now sums, occupied []occupancy, uses map[uint32]use) {
	samples := r.last.count(now)
	share, known := average(r.last.activity, now.activity, samples)
	if r.summed = known; known {
		out.Gauges[gpu.Utilization] = &share
	} else if r.moment != nil && r.moment.activity.ok { // processes were observed at the same moment
		out.Gauges[gpu.Utilization] = new(float64(r.moment.activity.n) / 100)
	}
	span := gpu.Span{From: r.last.at.Boot, To: now.at.Boot}
	if r.last.at.IsZero() || span.Len() <= 0 || span.Len() > max(maxSpan, 2*r.cfg.Tick) {
		return
	}
	if p := r.device.Partitions; p != nil {
		r.readInstances(out, p, now, samples, span)
		return
	}
	weigh(out, occupied, uses, span)
}

// maxSpan is the longest time between two readings for which activity is computed. If two ticks are longer than
// maxSpan, the limit is two ticks.
const maxSpan = 10 * time.Second

// If the activity of one partition is unknown, readInstances adds nothing.
func (r *reader) readInstances(out *gpu.Reading, p *gpu.Partitioning, now sums, samples uint64, span gpu.Span) {
	if len(p.Instances) > maxPartitions {
		return
	}
	var instances []gpu.InstanceSample
	for k, i := range p.Instances {
		var busy, dies float64
		for x := range min(i.Slices, maxXCC) {
			share, known := average(r.last.busy[k][x], now.busy[k][x], samples)
			if !known {
				return
			}
			busy, dies = busy+share, dies+1
		}
		instances = append(instances, gpu.InstanceSample{Instance: strconv.Itoa(k), Span: span, SM: busy / dies})
	}
	out.Instances, out.InstancesKnown = instances, true
}

// engines is the number of engines that count towards the busy time of a client: graphics and compute.
const engines = 2

// noise is a share of the time. If the GPU's activity exceeds the busy times of its clients by at most noise, the
// excess may belong to no process.
const noise = 0.05

// weigh divides the GPU's activity among its processes. DRM clients get their busy time. The remaining activity is
// divided among the other processes by their occupancy at one moment. If there is only one other process, it gets all
// of the remaining activity. The activity is unknown in two cases: the GPU worked but no process had work, or a busy
// time is impossible.
func weigh(out *gpu.Reading, occupied []occupancy, uses map[uint32]use, span gpu.Span) {
	busy := out.Gauges[gpu.Utilization]
	if busy == nil || !out.ContextsKnown {
		return
	}
	var all uint64
	for _, o := range occupied {
		if !o.units.ok {
			return
		}
		all += o.units.n
	}
	shares, rest := make(map[uint32]float64), *busy
	for pid, u := range uses {
		if u.busy > engines*span.Len()+span.Len()/2 {
			return
		}
		if share := min(u.busy.Seconds()/span.Len().Seconds(), 1); share > 0 {
			shares[pid] = share
			rest -= share
		}
	}
	switch {
	case all > 0 || *busy == 0 || len(uses) > 0 && rest <= noise:
	case len(uses) > 0 && len(occupied) == 1:
		occupied[0].units.n, all = 1, 1
	default:
		out.WeightedSamples = true
		return
	}
	for _, o := range occupied {
		if share := rest * float64(o.units.n) / float64(max(all, 1)); share > 0 {
			shares[o.pid] += share
		}
	}
	for _, pid := range slices.Sorted(maps.Keys(shares)) {
		out.Samples = append(out.Samples, gpu.Sample{PID: pid, Span: span, SM: min(shares[pid], 1)})
	}
	out.Sampled, out.SamplesKnown, out.WeightedSamples = span, true, true
}
