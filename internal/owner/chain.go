package owner

import (
	"errors"
	"maps"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/proc"
)

// keepProcesses is the time for which a process is kept after its last request. It is longer than
// any interval waits for its settlement.
const keepProcesses = time.Minute

// A Resolver finds the owners of one kind.
type Resolver interface {
	// Resolve returns a function that returns the current answer for a process, or nil if the
	// owner is of another kind. The function is called until its answer is final.
	Resolve(p Process) func() Answer
}

// A Process contains the data of a process for resolvers.
type Process struct {
	gpu.ProcessID
	// First is the time at which the process was first seen, on the boot clock.
	First time.Duration
	// Cgroup is the content of /proc/<pid>/cgroup. It may be long, so a resolver copies the parts
	// that it keeps.
	Cgroup string
}

// An Answer is the result of a resolver.
type Answer struct {
	Owner gpu.Owner
	// ContainerID is the container runtime's id, 64 hex digits. It may be empty.
	ContainerID string
	// Unit is the job inside a pod that the process belongs to; usually zero.
	Unit gpu.Unit
	// Final is set if the answer will not change.
	Final bool
}

// Chain maps processes to owners. It is used by one goroutine.
type Chain struct {
	tree      proc.Tree
	now       gpu.Clock
	resolvers []Resolver
	processes map[gpu.ProcessID]*process
	swept     time.Duration
	bootTime  time.Time // zero until needed
}

// process is a process that uses, or used, a GPU.
type process struct {
	gpu.Process
	// first and requested are the times at which the process was first and last requested, on the
	// boot clock.
	first, requested time.Duration
	resolve          func() Answer // nil once the owner is final
}

// NewChain returns a chain that calls the resolvers in order. A process that no resolver accepts
// belongs to the host.
func NewChain(tree proc.Tree, now gpu.Clock, resolvers ...Resolver) *Chain {
	return &Chain{tree: tree, now: now, resolvers: resolvers, processes: make(map[gpu.ProcessID]*process)}
}

// Process returns the current state in /proc of a process that uses a GPU, or false if there is
// no such process. Its start time is read on every call. Its name and its cgroup are read once,
// or again while its owner is unmapped. A process whose stat is unreadable is unmapped, and its
// ID has no start time.
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
// a minute after the last request. The owner is pending while it is not known yet, and unmapped if
// Process never returned the process. The owner has no part until the part is known.
func (c *Chain) Owner(id gpu.ProcessID) gpu.Owner {
	c.forget(c.now().Boot)
	p := c.processes[id]
	if p == nil {
		return gpu.Owner{Kind: gpu.OwnerUnmapped}
	}
	p.update()
	return p.Owner
}

// update calls the resolver unless the owner is final.
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

// read stores the process of the stat that was just read, or returns nil if it ended. A process
// with an unreadable cgroup is unmapped and will be read again.
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

// resolver returns the answer function of the first resolver that accepts the process.
func (c *Chain) resolver(p Process) func() Answer {
	for _, r := range c.resolvers {
		if resolve := r.Resolve(p); resolve != nil {
			return resolve
		}
	}
	id := proc.ContainerID(p.Cgroup)
	return func() Answer { return Answer{Owner: gpu.Owner{Kind: gpu.OwnerHost}, ContainerID: id, Final: true} }
}

// startTime converts ticks since boot to wall-clock time. It is zero while the boot time is
// unreadable.
func (c *Chain) startTime(ticks uint64) time.Time {
	if c.bootTime.IsZero() {
		var err error
		if c.bootTime, err = c.tree.BootTime(); err != nil {
			return time.Time{}
		}
	}
	return c.bootTime.Add(time.Duration(ticks) * (time.Second / proc.UserHZ))
}

// sweepEvery is the interval at which old processes are dropped.
const sweepEvery = 10 * time.Second

// forget drops the processes that were not requested lately. It also drops the boot time, which
// changes when the wall clock is set.
func (c *Chain) forget(now time.Duration) {
	if now-c.swept < sweepEvery {
		return
	}
	c.swept, c.bootTime = now, time.Time{}
	maps.DeleteFunc(c.processes, func(_ gpu.ProcessID, p *process) bool { return now-p.requested > keepProcesses })
}
