package podmapper

import (
	"errors"
	"time"
	"unique"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// keepProcesses is how long a process is remembered after it was last asked for:
// longer than any interval waits for its settlement.
const keepProcesses = time.Minute

// podAfter is how long a process waits for its container's name before its pod owns
// it: less than an interval waits for its settlement.
const podAfter = 5 * time.Second

// maxAsks is how many polls out of turn a process without a name is worth: the
// kubelet may need a moment to know its container.
const maxAsks = 3

// process is a process that uses, or used, a GPU. A thousand of them may come at once:
// what those of a container have in common is in memory once.
type process struct {
	id        gpu.ProcessID
	name      string
	startTime time.Time
	cgroup    unique.Handle[cgroup]
	owner     unique.Handle[gpu.Owner]
	// first and asked are when the process was first and last seen, on the boot clock.
	first, asked time.Duration
	// unread is set while the cgroup could not be read.
	unread bool
	// asks counts the polls that were asked for because its container has no name.
	asks uint8
}

// public returns what others are told of the process.
func (p process) public() gpu.Process {
	return gpu.Process{ID: p.id, Name: p.name, StartTime: p.startTime, Owner: p.owner.Value(), ContainerID: p.cgroup.Value().containerID}
}

// Process returns what /proc says now about a process that uses a GPU, or false
// if there is no such process. Its start time is read on every call, its name
// and its cgroup only once. A process whose stat cannot be read is unmapped, and
// its ID has no start time.
func (m *Mapper) Process(pid uint32) (gpu.Process, bool) {
	st, err := m.proc.stat(pid)
	if errors.Is(err, errGone) {
		return gpu.Process{}, false
	}
	if err != nil {
		return gpu.Process{ID: gpu.ProcessID{PID: pid}, Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}, true
	}
	p, ok := m.known(gpu.ProcessID{PID: pid, Start: st.start})
	if !ok {
		if p, ok = m.read(pid, st); !ok {
			return gpu.Process{}, false
		}
	}
	p.asked = m.cfg.Now().Boot
	return m.resolve(p).public(), true
}

// Owner returns the latest word on a process that Process has seen, also for a
// minute after it was last asked for. The owner is pending while its container
// has no name yet, and unmapped if the process was never seen. A pod whose container
// is not known owns it with an empty container name, until that is known.
func (m *Mapper) Owner(id gpu.ProcessID) gpu.Owner {
	m.mu.Lock()
	p, ok := m.remembered(id)
	m.mu.Unlock()
	if !ok {
		return gpu.Owner{Kind: gpu.OwnerUnmapped}
	}
	return m.resolve(p).owner.Value()
}

// known returns a process whose cgroup was read before.
func (m *Mapper) known(id gpu.ProcessID) (process, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.remembered(id)
	return p, ok && !p.unread
}

// remembered returns a process that was seen before. The caller holds m.mu.
func (m *Mapper) remembered(id gpu.ProcessID) (process, bool) {
	if p := m.processes[id]; p != nil {
		return *p, true
	}
	return process{}, false
}

// read makes the acquaintance of the process whose stat was just read, or says
// that it ended. An unreadable cgroup makes it unmapped, to be read again.
func (m *Mapper) read(pid uint32, st stat) (process, bool) {
	st, c, err := m.proc.cgroupOf(pid, st)
	if errors.Is(err, errGone) {
		return process{}, false
	}
	return process{
		id:        gpu.ProcessID{PID: pid, Start: st.start},
		name:      st.name,
		startTime: m.startTime(st.start),
		cgroup:    c,
		owner:     unique.Make(gpu.Owner{Kind: gpu.OwnerPending}),
		first:     m.cfg.Now().Boot,
		unread:    err != nil,
	}, true
}

// resolve names the owner of a process as far as it can be known now, and
// remembers the process.
func (m *Mapper) resolve(p process) process {
	if o := p.owner.Value(); o.Kind == gpu.OwnerPending || o.Kind == gpu.OwnerPod && o.Part == "" {
		m.findOwner(&p)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if before := m.processes[p.id]; before != nil {
		*before = p
	} else {
		m.processes[p.id] = new(p)
	}
	return p
}

// findOwner looks for the owner of a process that has none yet, or only its pod.
func (m *Mapper) findOwner(p *process) {
	c := p.cgroup.Value()
	owner := gpu.Owner{Kind: gpu.OwnerPending}
	switch {
	case c.host:
		owner.Kind = gpu.OwnerHost
	case c == cgroup{}:
		owner.Kind = gpu.OwnerUnmapped
	default:
		if container, ok := m.containerOf(p, c); ok {
			owner = container
		} else if p.asks < maxAsks {
			p.asks++
			m.askSoon()
		}
	}
	if found := unique.Make(owner); found != p.owner {
		p.owner = found
		m.expect(owner)
	}
}

// containerOf names the container of a process of a pod. After a while without a name it
// is that of the pod, without a container: before Kubernetes 1.37 the kubelet cuts the
// ids of containers with long names.
func (m *Mapper) containerOf(p *process, c cgroup) (gpu.Owner, bool) {
	now := m.cfg.Now().Boot
	if o := p.owner.Value(); o.Kind == gpu.OwnerPod { // only its pod is known
		if container, ok := m.names.indexed(c.podUID, c.containerID, now); ok {
			return container, true
		}
		return o, true
	}
	if container, ok := m.names.lookup(c.podUID, c.containerID, p.first); ok {
		return container, true
	}
	if now-p.first < podAfter {
		return gpu.Owner{}, false
	}
	return m.names.pod(c.podUID)
}

// startTime turns ticks since boot into a wall-clock time. It is zero while the
// boot time cannot be read.
func (m *Mapper) startTime(ticks uint64) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.bootTime.IsZero() {
		var err error
		if m.bootTime, err = m.proc.bootTime(); err != nil {
			return time.Time{}
		}
	}
	return m.bootTime.Add(time.Duration(ticks) * (time.Second / userHZ))
}

// expect has the kubelet asked once more, soon, if it did not yet say what the owner of
// a new process holds.
func (m *Mapper) expect(o gpu.Owner) {
	if o.Kind != gpu.OwnerPod {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.held {
		if a.Owner.Part == "" || o.Part == "" {
			a.Owner.Part = o.Part
		}
		if a.Owner == o && a.Live {
			return
		}
	}
	m.askSoon()
}

// forgetProcesses drops what nobody asked for lately, and the boot time, which
// follows the wall clock when that is set.
func (m *Mapper) forgetProcesses() {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := m.cfg.Now().Boot - keepProcesses
	for id, p := range m.processes {
		if p.asked < oldest {
			delete(m.processes, id)
		}
	}
	m.bootTime = time.Time{}
}
