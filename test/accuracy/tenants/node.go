package tenants

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

const (
	tick      = time.Second
	retention = 5 * time.Minute
	boot      = time.Hour
	// The NVML source treats samples that are newer than settling as incomplete.
	settling = 250 * time.Millisecond
)

var wall = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A reader reads a board as the exporter does.
type reader struct {
	*board
	uuid    string
	sampled time.Duration // boot-clock time up to which samples were read
	listed  map[uint32]*gpu.Process
	// first is the truth at the first observation. marks contains the truth at the latest observations.
	first mark
	marks []mark

	buffers buffers
	// active is the busy time of each instance up to the last observation, in milliseconds. It is nil before the first
	// observation.
	active []float64
	// busySince is the busy time of the GPU up to the last observation, in milliseconds.
	busySince float64
}

// A mark is the truth at an observation.
type mark struct {
	at      time.Duration // boot-clock time
	energy  float64
	counter gpu.Millijoules
	tallies []tally
}

func newReader(i int, b *board) *reader {
	return &reader{board: b, uuid: fmt.Sprintf("GPU-%d", i), listed: make(map[uint32]*gpu.Process)}
}

func instant(ms int64) gpu.Instant {
	d := time.Duration(ms) * time.Millisecond
	return gpu.Instant{Boot: boot + d, Wall: wall.Add(d)}
}

func (w *worker) pidAt(ms int64) uint32 {
	pid := uint32(1000 * (w.index + 1))
	if w.Lifetime > 0 {
		pid += 100_000 * uint32(ms/w.Lifetime.Milliseconds()%10_000)
	}
	return pid
}

func (w *worker) owner() gpu.Owner {
	return gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: w.Name, UID: "uid-" + w.Name, Part: "main"}
}

func (r *reader) process(w *worker) *gpu.Process {
	pid := w.pidAt(r.now)
	if r.listed[pid] == nil {
		if w.Lifetime > 0 && len(r.listed) > 1000 {
			clear(r.listed)
		}
		r.listed[pid] = &gpu.Process{ID: gpu.ProcessID{PID: pid, Start: 1}, Owner: w.owner()}
	}
	return r.listed[pid]
}

func (r *reader) observe() ledger.Observation {
	at := instant(r.now)
	o := ledger.Observation{
		UUID: r.uuid, Model: r.Model, At: at,
		Energy: new(r.reading()), MaxPower: r.Limit, PowerLimit: r.Limit,
		ConfiguredIdlePower: r.Configured, ProcessesKnown: true, AllocationsKnown: true,
	}
	for i := range r.workers {
		w := &r.workers[i]
		o.Processes = append(o.Processes, r.process(w))
		if w.Replicas > 0 {
			o.Allocations = append(o.Allocations, gpu.Allocation{Owner: w.owner(), Replicas: w.Replicas, Sharing: gpu.SharingTimeSlicing, Live: true})
		}
	}
	taken, powers := r.drain()
	switch {
	case r.Slices != nil:
		r.observeInstances(&o)
	case r.AMD != NoAMD:
		r.observeOccupancy(&o)
	default:
		o.Utilization = new(math.Round(100*r.busyOver(int64(1000/r.how.PerSecond))) / 100)
		o.QuietPower, o.QuietSampled = r.quietPower(at, taken, powers), r.how.Power > 0
		o.Sampled, o.Activity = r.fold(at, taken)
		o.ActivityKnown = true
	}
	r.keep(at)
	return o
}

// observeInstances adds the MIG instances, or the partitions of an AMD GPU, to an observation. In these modes the
// driver provides no samples of processes, of power or of the GPU's utilisation. GPM or gpu_metrics counts the activity
// of each instance.
func (r *reader) observeInstances(o *ledger.Observation) {
	o.Partitions = &gpu.Partitioning{}
	o.Places = make(map[gpu.ProcessID]string)
	for i, n := range r.Slices {
		o.Partitions.Slices += n
		o.Partitions.Instances = append(o.Partitions.Instances, gpu.Partition{ID: strconv.Itoa(i), Profile: fmt.Sprintf("%dg", n), Slices: n})
	}
	o.Allocations = nil
	for i := range r.workers {
		w := &r.workers[i]
		id := strconv.Itoa(w.Instance)
		o.Places[o.Processes[i].ID] = id
		o.Allocations = append(o.Allocations, gpu.Allocation{Owner: w.owner(), Replicas: 1, GPUInstance: id, Sharing: gpu.SharingMIG, Live: true})
	}
	if !r.GPM {
		return
	}
	if o.InstancesKnown = r.active != nil; o.InstancesKnown {
		o.Instances = make(map[string]time.Duration)
	} else {
		r.active = make([]float64, len(r.slots))
	}
	for i := range r.slots {
		s := &r.slots[i]
		if o.InstancesKnown {
			o.Instances[strconv.Itoa(i)] = time.Duration((s.counted - r.active[i]) * float64(time.Millisecond))
		}
		r.active[i] = s.counted
	}
}

// fold computes the activity from samples as NVML and the NVML source do. It returns one row per process. The busy
// percentage of a process is averaged over all samples since the last reading, and rounded.
func (r *reader) fold(at gpu.Instant, taken []sample) (gpu.Span, []ledger.Activity) {
	if r.sampled == 0 {
		r.sampled = at.Boot - tick
	}
	span := gpu.Span{From: max(r.sampled, at.Boot-10*time.Second), To: at.Boot - settling}
	taken = slices.DeleteFunc(taken, func(s sample) bool { return s.worker < 0 })
	sums, order := make(map[uint32]float64), []sample(nil)
	for _, s := range taken {
		if _, known := sums[s.pid]; !known {
			order = append(order, s)
		}
		sums[s.pid] += s.percent
		span.To = max(span.To, instant(s.at).Boot)
	}
	span.To = max(span.From, min(span.To, at.Boot))
	r.sampled = span.To
	var activity []ledger.Activity
	for _, s := range order {
		share := math.Round(sums[s.pid]/float64(len(taken))) / 100
		if busy := time.Duration(share * float64(span.Len())); busy > 0 {
			activity = append(activity, r.performed(s, span, busy)...)
		}
	}
	return span, activity
}

// performed returns the activity of the processes that a sample names. It divides the work of an MPS server equally
// among its clients, and marks this work as served. The sampler does the same.
func (r *reader) performed(s sample, span gpu.Span, busy time.Duration) (all []ledger.Activity) {
	if r.MPS != MPSServer {
		return []ledger.Activity{{Process: r.named(s), Span: span, Busy: busy}}
	}
	for i := range r.workers {
		all = append(all, ledger.Activity{Process: r.process(&r.workers[i]), Span: span, Busy: busy / time.Duration(len(r.workers)), Served: true})
	}
	return all
}

// named returns the process that a sample names. If a process ended before it was listed, its owner is unknown.
func (r *reader) named(s sample) *gpu.Process {
	w := &r.workers[s.worker]
	if p := r.listed[s.pid]; p != nil {
		return p
	}
	if s.pid == w.pidAt(r.now) {
		return r.process(w)
	}
	return &gpu.Process{ID: gpu.ProcessID{PID: s.pid}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}
}

func (r *reader) reading() gpu.Millijoules { return gpu.Millijoules(math.Round(r.counter)) }

// keep stores only the last ten seconds, because the ledger charges an interval at most ten seconds late.
func (r *reader) keep(at gpu.Instant) {
	m := mark{at: at.Boot, energy: r.energy, counter: r.reading(), tallies: r.tallies()}
	if r.first.at == 0 {
		r.first = m
	}
	if r.marks = append(r.marks, m); len(r.marks) > 16 {
		r.marks = r.marks[1:]
	}
}
