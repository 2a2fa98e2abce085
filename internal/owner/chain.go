package owner

import (
	"errors"
	"maps"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// keepProcesses is the time for which a process is kept after its last request. It is longer than the time for which
// the ledger waits for owners before it settles an interval.
const keepProcesses = time.Minute

// A Resolver finds owners of one kind.
type Resolver interface {
	// Resolve returns nil if the owner of the process is not of the resolver's kind. Otherwise it returns a function
	// for the current answer. The chain calls this function until the answer is final.
	Resolve(p Process) func() Answer
}

// A Process contains the data about a process that resolvers need.
type Process struct {
	gpu.ProcessID
	// First is the time at which the process was first seen (boot clock).
	First time.Duration
	// Cgroup is the content of /proc/<pid>/cgroup, which may be long. A resolver that stores a part of it must copy
	// this part, so that the rest does not stay in memory.
	Cgroup string
}

// An Answer is the answer of a resolver for a process.
type Answer struct {
	Owner gpu.Owner
	// ContainerID is the container's id in the runtime, with 64 hex digits. It may be empty.
	ContainerID string
	// Unit is the job inside a pod to which the process belongs. It is zero outside such jobs.
	Unit  gpu.Unit
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
	// first and requested are the times at which the process was first and last requested (boot clock).
	first, requested time.Duration
	resolve          func() Answer // nil after the owner became final
}

// NewChain returns a chain that calls the resolvers in the given order. If no resolver accepts a process, the host is
// its owner.
func NewChain(tree proc.Tree, now gpu.Clock, resolvers ...Resolver) *Chain {
	return &Chain{tree: tree, now: now, resolvers: resolvers, processes: make(map[gpu.ProcessID]*process)}
}

// Process returns the current state of a process that uses a GPU. It returns false if the process does not exist. It
// reads the start time of the process on every call. It reads the name and the cgroup again only while the owner is
// unmapped. If the file stat cannot be read, the process is unmapped and its ID contains no start time.
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

// Owner returns the owner of a process that Process has returned. An owner that is not fully known is pending or has no
// part. Owner forgets a process a minute after the last request for it, and reports unknown processes as unmapped.
func (c *Chain) Owner(id gpu.ProcessID) gpu.Owner {
	c.forget(c.now().Boot)
	p := c.processes[id]
	if p == nil {
		return gpu.Owner{Kind: gpu.OwnerUnmapped}
	}
	p.update()
	return p.Owner
}

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

// read creates and stores the process with the given stat. It returns nil if the process has ended. If the cgroup
// cannot be read, the process is unmapped and is read again later.
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

func (c *Chain) resolver(p Process) func() Answer {
	for _, r := range c.resolvers {
		if resolve := r.Resolve(p); resolve != nil {
			return resolve
		}
	}
	id := proc.ContainerID(p.Cgroup)
	return func() Answer { return Answer{Owner: gpu.Owner{Kind: gpu.OwnerHost}, ContainerID: id, Final: true} }
}

// startTime converts ticks since boot to wall-clock time. It returns zero if the boot time cannot be read.
func (c *Chain) startTime(ticks uint64) time.Time {
	if c.bootTime.IsZero() {
		var err error
		if c.bootTime, err = c.tree.BootTime(); err != nil {
			return time.Time{}
		}
	}
	return c.bootTime.Add(time.Duration(ticks) * (time.Second / proc.UserHZ))
}

const sweepEvery = 10 * time.Second

// forget drops old processes. It also drops the boot time, because the boot time changes when the wall clock is set.
func (c *Chain) forget(now time.Duration) {
	if now-c.swept < sweepEvery {
		return
	}
	c.swept, c.bootTime = now, time.Time{}
	maps.DeleteFunc(c.processes, func(_ gpu.ProcessID, p *process) bool { return now-p.requested > keepProcesses })
}
