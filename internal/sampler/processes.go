package sampler

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// processes resolves the driver's PIDs. It remembers recent processes, because the driver may list the PID of a process
// that has ended. Readers share pointers, because there may be thousands of processes.
type processes struct {
	owners Owners
	seen   map[uint32]remembered
}

type remembered struct {
	*gpu.Process
	at time.Duration // time on the boot clock
}

const (
	// memory is the time for which a process is remembered. It is much longer than the age of the oldest sample in the
	// driver's ring buffer.
	memory = 30 * time.Second
	// lately is the maximum time between the last list with a process and the start of a sample of this process. The
	// ledger uses an outdated list for the same time.
	lately = 10 * time.Second
)

func newProcesses(o Owners) processes {
	return processes{owners: o, seen: make(map[uint32]remembered)}
}

// processUsage contains the processes on one GPU in one reading, and their activity.
type processUsage struct {
	present  []gpuProcess
	activity []ledger.Activity
}

type gpuProcess struct {
	*gpu.Process
	*gpu.Context
}

// holds reports whether a pod holds a GPU.
func (p *processes) resolve(r gpu.Reading, holds func(gpu.Owner) bool) processUsage {
	who := processUsage{present: make([]gpuProcess, 0, len(r.Contexts)), activity: make([]ledger.Activity, 0, len(r.Samples))}
	for i := range r.Contexts {
		c := &r.Contexts[i]
		who.present = append(who.present, gpuProcess{p.resolvePresent(c.PID, r.At), c})
	}
	for _, s := range r.Samples {
		if busy := time.Duration(s.SM * float64(s.Len())); busy > 0 {
			who.activity = append(who.activity, ledger.Activity{Process: p.resolveSampled(s, r.At), Span: s.Span, Busy: busy})
		}
	}
	who.passOn(holds)
	return who
}

func (p *processes) resolvePresent(pid uint32, at gpu.Instant) *gpu.Process {
	if process, alive := p.owners.Process(pid); alive {
		return p.remember(process, at.Boot)
	}
	if process, seen := p.recall(pid); seen {
		return process
	}
	return &gpu.Process{ID: gpu.ProcessID{PID: pid}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}
}

func (p *processes) remember(process gpu.Process, at time.Duration) *gpu.Process {
	pid := process.ID.PID
	known := p.seen[pid].Process
	if known == nil || *known != process {
		known = new(process)
	}
	p.seen[pid] = remembered{known, at}
	return known
}

// The process of a sample may have ended. If two processes had this PID, resolveSampled prefers the process that was
// recently on a GPU.
func (p *processes) resolveSampled(s gpu.Sample, at gpu.Instant) *gpu.Process {
	if process, seen := p.recall(s.PID); seen && p.seen[s.PID].at >= s.From-lately {
		return process
	}
	return p.resolvePresent(s.PID, at)
}

// recall returns a recently seen process with its current owner.
func (p *processes) recall(pid uint32) (*gpu.Process, bool) {
	r, seen := p.seen[pid]
	if !seen {
		return nil, false
	}
	return p.remember(*r.OwnedBy(p.owners.Owner(r.ID)), r.at), true
}

func (p *processes) forget(now gpu.Instant) {
	for pid, a := range p.seen {
		if now.Boot-a.at > memory {
			delete(p.seen, pid)
		}
	}
}

// The utilisation of a process is unknown if there are no samples, if they cover no time, or if the driver weights
// them.
func (p *processes) liveProcesses(r *gpu.Reading, who processUsage) []gpu.LiveProcess {
	out := make([]gpu.LiveProcess, 0, len(who.present))
	for _, g := range who.present {
		live := gpu.LiveProcess{Process: g.Process, MemoryUsed: g.MemoryUsed}
		if g.Owner.Kind == gpu.OwnerPending {
			live.Process = g.OwnedBy(p.owners.Owner(g.ID))
		}
		if r.SamplesKnown && r.Sampled.Len() > 0 && !r.WeightedSamples {
			live.SM, live.Memory = utilization(r.Samples, g.ID.PID)
		}
		out = append(out, live)
	}
	return out
}

// utilization returns 0 if there is no sample of the process. The driver normally returns one sample per process,
// averaged over the time since the last reading. If there are several samples, utilization uses the newest one.
func utilization(samples []gpu.Sample, pid uint32) (sm, memory *float64) {
	sm, memory = new(0.0), new(0.0)
	for i := range samples {
		if s := &samples[i]; s.PID == pid {
			*sm, *memory = s.SM, s.Memory
		}
	}
	return sm, memory
}
