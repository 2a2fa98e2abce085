package owner

import (
	"errors"
	"maps"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// keepProcesses is the time for which a process is kept after its last request. This time is longer
// than the time for which the ledger waits for owners before it settles an interval.
const keepProcesses = time.Minute

// A Resolver finds owners of one kind.
type Resolver interface {
	// If the owner of a process is of the resolver's kind, Resolve returns a function that returns the
	// current answer for the process. Otherwise Resolve returns nil. The chain calls the returned
	// function until the answer is final.
	Resolve(p Process) func() Answer
}

// A Process contains the data about a process that resolvers need.
type Process struct {
	gpu.ProcessID
	// First is the time at which the process was first seen, on the boot clock.
	First time.Duration
	// Cgroup is the content of /proc/<pid>/cgroup. The string may be long. If a resolver stores a part of it, the
	// resolver must copy this part, so that the whole string does not stay in memory.
	Cgroup string
}

// An Answer is the answer of a resolver for a process.
type Answer struct {
	Owner gpu.Owner
	// ContainerID is the id of the container in the container runtime, with 64 hex digits. ContainerID
	// may be empty.
	ContainerID string
	// Unit is the job inside a pod to which the process belongs. Unit is zero if the process does not
	// belong to such a job.
	Unit gpu.Unit
	// Final is set if the answer will not change.
	Final bool
}

// Chain finds the owners of processes. Only one goroutine may use it.
type Chain struct {
	tree      proc.Tree
	now       gpu.Clock
	resolvers []Resolver
	processes map[gpu.ProcessID]*process
	swept     time.Duration
	bootTime  time.Time // zero until it is needed
}

// process is a process that uses, or used, a GPU.
type process struct {
	gpu.Process
	// first and requested are the times at which the process was first and last requested, on the
	// boot clock.
	first, requested time.Duration
	resolve          func() Answer // nil after the owner became final
}

// NewChain returns a chain that calls the resolvers in the given order. If no resolver accepts a
// process, the process belongs to the host.
func NewChain(tree proc.Tree, now gpu.Clock, resolvers ...Resolver) *Chain {
	return &Chain{tree: tree, now: now, resolvers: resolvers, processes: make(map[gpu.ProcessID]*process)}
}

// Process returns the current state in /proc of a process that uses a GPU, or false if there is no such process.
// Process reads the start time on every call. It usually reads the name and the cgroup only once. While the owner
// is unmapped, it reads them on every call. If the file stat cannot be read, the process is unmapped and its ID
// contains no start time.
func (c *Chain) Process(pid uint32) (gpu.Process, bool) {
	now := c.now().Boot
	c.forget(now)
	st, err := c.tree.Stat(pid)
	if errors.Is(err, proc.ErrGone) {
		return gpu.Process{}, false
	}
	if err != nil {
		return gpu.Process{ID: gpu.ProcessID{PID: pid}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}, true
	}
	p := c.processes[gpu.ProcessID{PID: pid, Start: st.Start}]
	if p == nil || p.Owner.Kind == gpu.OwnerUnmapped {
		if p = c.read(pid, st); p == nil {
			return gpu.Process{}, false
		}
	}
	p.requested = now
	p.update()
	return p.Process, true
}

// Owner returns the owner of a process that Process has returned before. The owner is available for
// a minute after the last request. While the owner is not known yet, it is pending. If Process
// never returned the process, the owner is unmapped. The owner has no part until the part is known.
func (c *Chain) Owner(id gpu.ProcessID) gpu.Owner {
	c.forget(c.now().Boot)
	p := c.processes[id]
	if p == nil {
		return gpu.Owner{Kind: gpu.OwnerUnmapped}
	}
	p.update()
	return p.Owner
}

// update calls the resolver's function unless the owner is final.
func (p *process) update() {
	if p.resolve == nil {
		return
	}
	a := p.resolve()
	p.Owner, p.ContainerID, p.Unit = a.Owner, a.ContainerID, a.Unit
	if a.Final {
		p.resolve = nil
	}
}

// read creates and stores the process with the given stat. It returns nil if the process has ended.
// If the cgroup cannot be read, the process is unmapped, and the chain reads the process again
// later.
func (c *Chain) read(pid uint32, st proc.Stat) *process {
	st, cgroup, err := c.tree.Cgroup(pid, st)
	if errors.Is(err, proc.ErrGone) {
		return nil
	}
	now := c.now().Boot
	id := gpu.ProcessID{PID: pid, Start: st.Start}
	p := &process{first: now, Process: gpu.Process{ID: id, Name: st.Name, StartTime: c.startTime(st.Start)}}
	switch {
	case err != nil:
		p.Owner.Kind = gpu.OwnerUnmapped
	case st.Kernel:
		p.Owner.Kind = gpu.OwnerHost
	default:
		p.resolve = c.resolver(Process{ProcessID: id, First: now, Cgroup: cgroup})
	}
	c.processes[id] = p
	return p
}

// resolver returns the function of the first resolver that accepts the process.
func (c *Chain) resolver(p Process) func() Answer {
	for _, r := range c.resolvers {
		if resolve := r.Resolve(p); resolve != nil {
			return resolve
		}
	}
	id := proc.ContainerID(p.Cgroup)
	return func() Answer { return Answer{Owner: gpu.Owner{Kind: gpu.OwnerHost}, ContainerID: id, Final: true} }
}

// startTime converts ticks since boot to wall-clock time. While the boot time cannot be read,
// startTime returns the zero time.
func (c *Chain) startTime(ticks uint64) time.Time {
	if c.bootTime.IsZero() {
		var err error
		if c.bootTime, err = c.tree.BootTime(); err != nil {
			return time.Time{}
		}
	}
	return c.bootTime.Add(time.Duration(ticks) * (time.Second / proc.UserHZ))
}

// sweepEvery is the interval at which the chain drops old processes.
const sweepEvery = 10 * time.Second

// forget drops the processes that were last requested longer ago than keepProcesses. It also drops
// the boot time, because the boot time changes when the wall clock is set.
func (c *Chain) forget(now time.Duration) {
	if now-c.swept < sweepEvery {
		return
	}
	c.swept, c.bootTime = now, time.Time{}
	maps.DeleteFunc(c.processes, func(_ gpu.ProcessID, p *process) bool { return now-p.requested > keepProcesses })
}
