package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A sighting is what was seen on a GPU over some time.
type sighting struct {
	processes []presence // in the order of their names
	// sampled is up to when the activity of the processes is known. Boot clock.
	sampled time.Duration
	// mig is how the GPU was divided at the last look, places where processes were.
	mig    *gpu.Partitioning
	places map[gpu.ProcessID]string
	// instances is how long each MIG instance was busy, told at every look if
	// divided is set, which had the same instances.
	instances map[string]time.Duration
	divided   bool
	// listed is set if the processes were known at its start and at every look.
	listed bool
	// signal is set if the driver told activity at every look.
	signal bool
	// busy is set if the GPU was seen to work, measured if that could be told at every
	// look. utilization is the sum over the looks.
	busy, measured bool
	utilization    float64
	looks          int
	// holders and holdersKnown are the kubelet's word at the last look.
	holders      []gpu.Allocation
	holdersKnown bool
}

// A presence is one process of a sighting.
type presence struct {
	*gpu.Process
	// active is set if it was told to have worked, activity is how long it did, and
	// served how much of that is MPS servers' work.
	activity, served time.Duration
	active           bool
}

// did adds what the process did.
func (p *presence) did(more presence) {
	p.activity += more.activity
	p.served += more.served
	p.active = p.active || more.active
}

// newSighting begins with the processes that were there at its start.
func newSighting(processes []presence) sighting {
	return sighting{
		processes: processes,
		places:    make(map[gpu.ProcessID]string),
		instances: make(map[string]time.Duration),
		listed:    true, signal: true, divided: true, measured: true,
	}
}

// add notes what one observation saw. The list of processes may be older than it.
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
	s.divided = s.divided && o.InstancesKnown && sameLayout(s.mig, o.MIG)
	s.mig = o.MIG
	maps.Copy(s.places, o.Places)
	s.listed = s.listed && listed
	s.signal = s.signal && o.ActivityKnown
	s.measured = s.measured && o.Utilization != nil
	if s.looks++; o.Utilization != nil {
		s.busy = s.busy || *o.Utilization > 0
		s.utilization += *o.Utilization
	}
	s.holders, s.holdersKnown = o.Allocations, o.AllocationsKnown
}

// addPresence adds what a process did, and takes over what is known of it now.
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

// find returns the position of a process, and whether it was there.
func (s *sighting) find(id gpu.ProcessID) (int, bool) {
	return slices.BinarySearchFunc(s.processes, id, func(p presence, id gpu.ProcessID) int { return compareProcess(p.ID, id) })
}

// sampledUntil returns the moment, on the boot clock, up to which an observation
// makes activity known. If it tells none there will be no more than is known.
func sampledUntil(o Observation) time.Duration {
	if !o.ActivityKnown {
		return o.At.Boot
	}
	return o.Sampled.To
}

// merge adds what was seen later.
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
	s.holders, s.holdersKnown = later.holders, later.holdersKnown
}

// presentOf returns the given processes, which are in order, as they were seen.
func (s *sighting) presentOf(ids []gpu.ProcessID) []presence {
	out := make([]presence, 0, len(ids))
	for _, id := range ids {
		if i, found := s.find(id); found {
			out = append(out, presence{Process: s.processes[i].Process})
		}
	}
	return out
}

// end returns what was seen at the mark that ends the sighting.
func (s *sighting) end(m Mark) sighting {
	e := newSighting(s.presentOf(m.Processes))
	e.mig, e.places = s.mig, s.places
	e.listed, e.holders, e.holdersKnown = s.listed, s.holders, s.holdersKnown
	return e
}
