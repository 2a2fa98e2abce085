package sampler

import (
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// people turns the driver's PIDs into processes. The driver may still name a
// process that is gone, so those seen lately are remembered.
type people struct {
	mapper Mapper
	seen   map[uint32]acquaintance
}

type acquaintance struct {
	gpu.Process
	at gpu.Instant
}

// memory is how long a process is remembered: well over the driver's ring of
// utilisation samples, which holds ten seconds.
const memory = time.Minute

func newPeople(m Mapper) people { return people{mapper: m, seen: make(map[uint32]acquaintance)} }

// A look is who was on one GPU at one reading.
type look struct {
	processes []gpu.Process // in the order of Reading.Contexts
	activity  []ledger.Activity
}

// look resolves the PIDs of a reading.
func (p *people) look(r gpu.Reading) look {
	var l look
	for _, c := range r.Contexts {
		l.processes = append(l.processes, p.present(c.PID, r.At))
	}
	for _, s := range r.Samples {
		if weight := uint32(math.Round(s.SM * 10_000)); weight > 0 {
			l.activity = append(l.activity, ledger.Activity{Process: p.past(s.PID, r.At), Weight: weight})
		}
	}
	return l
}

// present resolves a PID that is on the GPU now.
func (p *people) present(pid uint32, at gpu.Instant) gpu.Process {
	process, alive := p.mapper.Process(pid)
	if !alive {
		return p.stranger(pid)
	}
	p.seen[pid] = acquaintance{process, at}
	return process
}

// past resolves a PID that was active since the last reading. It may have ended,
// so one that was seen on a GPU before is meant rather than a new one.
func (p *people) past(pid uint32, at gpu.Instant) gpu.Process {
	if a, ok := p.seen[pid]; ok {
		a.Owner = p.mapper.Owner(a.ID)
		return a.Process
	}
	return p.present(pid, at)
}

// stranger returns a process that is gone: as it was known, or as one that nobody
// can name any more.
func (p *people) stranger(pid uint32) gpu.Process {
	if a, ok := p.seen[pid]; ok {
		a.Owner = p.mapper.Owner(a.ID)
		return a.Process
	}
	return gpu.Process{ID: gpu.ProcessID{PID: pid}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}
}

// forget drops the processes that were not seen for a while.
func (p *people) forget(now gpu.Instant) {
	for pid, a := range p.seen {
		if now.Sub(a.at) > memory {
			delete(p.seen, pid)
		}
	}
}

// live returns the processes on a GPU with what they use of it.
func (p *people) live(r *gpu.Reading, l look) []gpu.LiveProcess {
	if r == nil {
		return nil
	}
	out := make([]gpu.LiveProcess, 0, len(l.processes))
	for i, process := range l.processes {
		if process.Owner.Kind == gpu.OwnerPending {
			process.Owner = p.mapper.Owner(process.ID)
		}
		live := gpu.LiveProcess{Process: process, MemoryUsed: r.Contexts[i].MemoryUsed}
		if r.SamplesKnown {
			live.SM, live.Memory = utilization(r.Samples, process.ID.PID)
		}
		out = append(out, live)
	}
	return out
}

// utilization returns a process's utilisation; a process without a sample did
// nothing. The driver gives one row per process, already averaged over the time
// since the last reading; of several rows the newest counts.
func utilization(samples []gpu.Sample, pid uint32) (sm, memory *float64) {
	sm, memory = new(0.0), new(0.0)
	for _, s := range samples {
		if s.PID == pid {
			*sm, *memory = s.SM, s.Memory
		}
	}
	return sm, memory
}

// observation is a reading as the ledger takes it.
func observation(d gpu.Device, r gpu.Reading, l look, allocations gpu.Allocations) ledger.Observation {
	return ledger.Observation{
		UUID: r.UUID, At: r.At,
		Energy: r.Energy, MaxPower: maxPower(d), Utilization: r.Utilization,
		Processes: l.processes, ProcessesKnown: r.ContextsKnown,
		Activity: l.activity, ActivityKnown: r.SamplesKnown,
		Allocations: allocationsOf(r.UUID, allocations), AllocationsKnown: allocations.Known,
	}
}

// maxPower returns what the counter of a GPU can be expected to count at most. One
// that does not count the GPU alone may include a second die and a CPU: three
// times the GPU's own limit.
func maxPower(d gpu.Device) gpu.Watts {
	if d.EnergyScope == gpu.ScopeGPU {
		return d.MaxPower
	}
	return 3 * d.MaxPower
}

func allocationsOf(uuid string, all gpu.Allocations) []gpu.Allocation {
	var out []gpu.Allocation
	for _, a := range all.List {
		if a.UUID == uuid {
			out = append(out, a)
		}
	}
	return out
}

// holders lists the live containers that hold a GPU, and those that use it
// without holding it.
func holders(uuid string, processes []gpu.Process, allocations gpu.Allocations) []gpu.Holder {
	var out []gpu.Holder
	listed := func(k gpu.AccountKey) bool {
		return slices.ContainsFunc(out, func(h gpu.Holder) bool { return h.AccountKey == k })
	}
	for _, a := range allocationsOf(uuid, allocations) {
		key := gpu.AccountKey{GPUInstance: a.GPUInstance, Container: a.Container}
		if a.Live && a.Container.PodUID != "" && !listed(key) {
			out = append(out, gpu.Holder{
				AccountKey: key, Resource: a.Resource, Claim: a.Claim, Sharing: a.Sharing, Replicas: a.Replicas,
			})
		}
	}
	for _, p := range processes {
		key := gpu.AccountKey{Container: p.Owner.Container}
		if p.Owner.Kind == gpu.OwnerContainer && !listed(key) {
			out = append(out, gpu.Holder{AccountKey: key, Sharing: gpu.SharingNone})
		}
	}
	return out
}
