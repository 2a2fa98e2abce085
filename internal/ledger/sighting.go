package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A sighting summarises the observations of a GPU over some time.
type sighting struct {
	processes []presence // in the order of their names
	// sampled is the boot clock up to which the activity of the processes is known.
	sampled time.Duration
	// mig is the partitioning at the last observation, places the instances of processes.
	mig    *gpu.Partitioning
	places map[gpu.ProcessID]string
	// instances is the busy time of each MIG instance. It is complete if divided is set, and all
	// observations had the same instances.
	instances map[string]time.Duration
	divided   bool
	// listed is set if the processes were known at its start and at every observation.
	listed bool
	// signal is set if every observation had activity.
	signal bool
	// busy is set if the GPU was active, measured if every observation had its utilisation.
	// utilization is the sum over the observations.
	busy, measured bool
	utilization    float64
	looks          int
	// quietPower is the power of the GPU in quiet times that the driver's samples showed last, 0
	// without one.
	quietPower gpu.Watts
	// quietSampled is set if an observation had power samples.
	quietSampled bool
	// holders and holdersKnown are the allocations of the last observation. While they are unknown,
	// alive has the UIDs of the pods that were alive; nil if that is unknown, too.
	holders      []gpu.Allocation
	holdersKnown bool
	alive        map[string]bool
}

// A presence is one process of a sighting.
type presence struct {
	*gpu.Process
	// active is set if it worked, activity is its busy time, and served the part of that for
	// clients of an MPS server.
	activity, served time.Duration
	active           bool
}

// did adds activity of the process.
func (p *presence) did(more presence) {
	p.activity += more.activity
	p.served += more.served
	p.active = p.active || more.active
}

func (p *presence) worked() bool { return p.active || p.activity > 0 }

// newSighting starts with the processes that were present at its start.
func newSighting(processes []presence) sighting {
	return sighting{
		processes: processes,
		places:    make(map[gpu.ProcessID]string),
		instances: make(map[string]time.Duration),
		listed:    true, signal: true, divided: true, measured: true,
	}
}

// add adds one observation. Its list of processes may be older.
func (s *sighting) add(o Observation, list []*gpu.Process, listed bool) {
	for _, p := range list {
		s.addPresence(presence{Process: p})
	}
	for _, a := range o.Activity {
		s.addPresence(a.presence(a.Busy, true))
		s.busy = true
	}
	s.sampled = sampledUntil(o)
	for instance, busy := range o.Instances {
		s.instances[instance] += busy
	}
	s.divided = s.divided && o.InstancesKnown && sameLayout(s.mig, o.Partitions)
	s.mig = o.Partitions
	maps.Copy(s.places, o.Places)
	s.listed = s.listed && listed
	s.signal = s.signal && o.ActivityKnown
	s.measured = s.measured && o.Utilization != nil
	if s.looks++; o.Utilization != nil {
		s.busy = s.busy || *o.Utilization > 0
		s.utilization += *o.Utilization
	}
	if o.QuietPower > 0 {
		s.quietPower = o.QuietPower
	}
	s.quietSampled = s.quietSampled || o.QuietSampled
	s.holders, s.holdersKnown, s.alive = o.Allocations, o.AllocationsKnown, o.Alive
}

// addPresence adds the activity of a process and updates its data.
func (s *sighting) addPresence(p presence) {
	i, found := s.find(p.ID)
	if !found {
		s.processes = slices.Insert(s.processes, i, p)
		return
	}
	seen := &s.processes[i]
	seen.Process = p.Process
	seen.did(p)
}

// find returns the index of a process, and whether it is present.
func (s *sighting) find(id gpu.ProcessID) (int, bool) {
	return slices.BinarySearchFunc(s.processes, id, func(p presence, id gpu.ProcessID) int { return compareProcess(p.ID, id) })
}

// sampledUntil returns the boot clock up to which an observation has activity. Without activity, no
// later samples can arrive.
func sampledUntil(o Observation) time.Duration {
	if !o.ActivityKnown {
		return o.At.Boot
	}
	return o.Sampled.To
}

// merge adds later observations.
func (s *sighting) merge(later sighting) {
	for _, p := range later.processes {
		s.addPresence(p)
	}
	maps.Copy(s.places, later.places)
	s.mig = later.mig
	for instance, busy := range later.instances {
		s.instances[instance] += busy
	}
	s.sampled, s.divided = later.sampled, s.divided && later.divided
	s.listed = s.listed && later.listed
	s.signal = s.signal && later.signal
	s.measured = s.measured && later.measured
	s.utilization, s.looks = s.utilization+later.utilization, s.looks+later.looks
	s.busy = s.busy || later.busy
	if later.quietPower > 0 {
		s.quietPower = later.quietPower
	}
	s.quietSampled = s.quietSampled || later.quietSampled
	s.holders, s.holdersKnown, s.alive = later.holders, later.holdersKnown, later.alive
}

// presentOf returns the given processes, which are sorted, with their activity.
func (s *sighting) presentOf(ids []gpu.ProcessID) []presence {
	out := make([]presence, 0, len(ids))
	for _, id := range ids {
		if i, found := s.find(id); found {
			out = append(out, presence{Process: s.processes[i].Process})
		}
	}
	return out
}

// end returns the state at the mark that ends the sighting.
func (s *sighting) end(m Mark) sighting {
	e := newSighting(s.presentOf(m.Processes))
	e.mig, e.places = s.mig, s.places
	e.listed, e.holders, e.holdersKnown, e.alive = s.listed, s.holders, s.holdersKnown, s.alive
	return e
}
