package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A window summarises the observations of a GPU over some time.
type window struct {
	processes []usage // sorted by process id
	// The activity of the processes is known up to sampled (boot clock).
	sampled time.Duration
	// mig is the partitioning at the last observation. places contains the instance of each process.
	mig    *gpu.Partitioning
	places map[gpu.ProcessID]string
	// instances contains the busy time of each MIG instance. divided is set if every observation had the same instances
	// with known busy times.
	instances map[string]time.Duration
	divided   bool
	// listed is set if the processes were known at the start of the window and at every observation.
	listed bool
	// outdated is set if an observation used the list of processes of an earlier observation.
	outdated bool
	// signal is set if the activity was known in every observation.
	signal bool
	// weighted is set if the activity was weighted in an observation; see [Observation.ActivityWeighted].
	weighted bool
	// busy is set if the GPU was active. measured is set if every observation contained the utilisation of the GPU.
	// utilization is the sum of these values, and looks is the number of observations.
	busy, measured bool
	utilization    float64
	looks          int
	throttled      gpu.ThrottledTimes
	// quietPower is the newest power in quiet times, according to the driver's samples. It is 0 if there was no quiet
	// time.
	quietPower gpu.Watts
	// quietSampled is set if an observation contained power samples.
	quietSampled bool
	// holders contains the allocations at the last observation. The list is complete if holdersKnown is set. Otherwise
	// alive contains the UIDs of the live pods, or nil if the UIDs are also unknown.
	holders      []gpu.Allocation
	holdersKnown bool
	alive        map[string]bool
}

// A usage describes the work of one process in a window.
type usage struct {
	*gpu.Process
	// active is set if the process worked. activity is its busy time. served is the part of activity in which it worked
	// as an MPS server for several owners.
	activity, served time.Duration
	active           bool
}

// more must belong to the same process.
func (u *usage) add(more usage) {
	u.activity += more.activity
	u.served += more.served
	u.active = u.active || more.active
}

func (u *usage) worked() bool { return u.active || u.activity > 0 }

func newWindow(processes []usage) window {
	return window{
		processes: processes,
		places:    make(map[gpu.ProcessID]string),
		instances: make(map[string]time.Duration),
		listed:    true, signal: true, divided: true, measured: true,
	}
}

// list may be older than the observation.
func (w *window) add(o Observation, list []*gpu.Process, listed bool) {
	for _, p := range list {
		w.addUsage(usage{Process: p})
	}
	for _, a := range o.Activity {
		w.addUsage(a.usage(a.Busy, true))
		w.busy = true
	}
	w.sampled = sampledUntil(o)
	for instance, busy := range o.Instances {
		w.instances[instance] += busy
	}
	w.divided = w.divided && o.InstancesKnown && sameLayout(w.mig, o.Partitions)
	w.mig = o.Partitions
	maps.Copy(w.places, o.Places)
	w.listed = w.listed && listed
	w.outdated = w.outdated || !o.ProcessesKnown
	w.signal = w.signal && o.ActivityKnown
	w.weighted = w.weighted || o.ActivityWeighted
	w.measured = w.measured && o.Utilization != nil
	if w.looks++; o.Utilization != nil {
		w.busy = w.busy || *o.Utilization > 0
		w.utilization += *o.Utilization
	}
	if o.QuietPower > 0 {
		w.quietPower = o.QuietPower
	}
	w.quietSampled = w.quietSampled || o.QuietSampled
	w.holders, w.holdersKnown, w.alive = o.Allocations, o.AllocationsKnown, o.Alive
}

func (w *window) addUsage(u usage) {
	i, found := w.find(u.ID)
	if !found {
		w.processes = slices.Insert(w.processes, i, u)
		return
	}
	known := &w.processes[i]
	known.Process = u.Process
	known.add(u)
}

func (w *window) find(id gpu.ProcessID) (int, bool) {
	return slices.BinarySearchFunc(w.processes, id, func(u usage, id gpu.ProcessID) int { return compareProcess(u.ID, id) })
}

// sampledUntil returns the time (boot clock) up to which the activity is known after an observation. If the activity is
// unknown, this is the time of the observation, because no later samples can arrive.
func sampledUntil(o Observation) time.Duration {
	if !o.ActivityKnown {
		return o.At.Boot
	}
	return o.Sampled.To
}

func (w *window) merge(later window) {
	for _, u := range later.processes {
		w.addUsage(u)
	}
	maps.Copy(w.places, later.places)
	w.mig = later.mig
	for instance, busy := range later.instances {
		w.instances[instance] += busy
	}
	w.addThrottled(later.throttled)
	w.sampled, w.divided = later.sampled, w.divided && later.divided
	w.listed = w.listed && later.listed
	w.outdated = w.outdated || later.outdated
	w.signal = w.signal && later.signal
	w.weighted = w.weighted || later.weighted
	w.measured = w.measured && later.measured
	w.utilization, w.looks = w.utilization+later.utilization, w.looks+later.looks
	w.busy = w.busy || later.busy
	if later.quietPower > 0 {
		w.quietPower = later.quietPower
	}
	w.quietSampled = w.quietSampled || later.quietSampled
	w.holders, w.holdersKnown, w.alive = later.holders, later.holdersKnown, later.alive
}

// usagesOf returns a usage without activity for each listed process in the window. ids must be sorted.
func (w *window) usagesOf(ids []gpu.ProcessID) []usage {
	out := make([]usage, 0, len(ids))
	for _, id := range ids {
		if i, found := w.find(id); found {
			out = append(out, usage{Process: w.processes[i].Process})
		}
	}
	return out
}

func (w *window) end(m Mark) window {
	e := newWindow(w.usagesOf(m.Processes))
	e.mig, e.places = w.mig, w.places
	e.listed, e.outdated = w.listed, m.outdated
	e.holders, e.holdersKnown, e.alive = w.holders, w.holdersKnown, w.alive
	return e
}
