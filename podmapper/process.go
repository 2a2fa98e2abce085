package podmapper

import (
	"errors"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// keepProcesses is how long a process is remembered after it was last asked for:
// longer than any interval waits for its settlement.
const keepProcesses = time.Minute

// maxAsks is how many polls out of turn a process without a name is worth: the
// kubelet may need a moment to know its container.
const maxAsks = 3

// process is a process that uses, or used, a GPU.
type process struct {
	gpu.Process
	cgroup cgroup
	// unread is set while the cgroup could not be read.
	unread bool
	// asks counts the polls that were asked for because its container has no name.
	asks int
	// first and asked are when the process was first and last seen, on the boot clock.
	first, asked time.Duration
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
	return m.resolve(p).Process, true
}

// Owner returns the latest word on a process that Process has seen, also for a
// minute after it was last asked for. The owner is pending while its container
// has no name yet, and unmapped if the process was never seen.
func (m *Mapper) Owner(id gpu.ProcessID) gpu.Owner {
	m.mu.Lock()
	p, ok := m.processes[id]
	m.mu.Unlock()
	if !ok {
		return gpu.Owner{Kind: gpu.OwnerUnmapped}
	}
	return m.resolve(p).Owner
}

// known returns a process whose cgroup was read before.
func (m *Mapper) known(id gpu.ProcessID) (process, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p, ok := m.processes[id]
	return p, ok && !p.unread
}

// read makes the acquaintance of the process whose stat was just read, or says
// that it ended. An unreadable cgroup makes it unmapped, to be read again.
func (m *Mapper) read(pid uint32, st stat) (process, bool) {
	st, c, err := m.proc.cgroupOf(pid, st)
	if errors.Is(err, errGone) {
		return process{}, false
	}
	p := process{cgroup: c, unread: err != nil, first: m.cfg.Now().Boot}
	p.ID = gpu.ProcessID{PID: pid, Start: st.start}
	p.Name = st.name
	p.StartTime = m.startTime(st.start)
	return p, true
}

// resolve names the owner of a process as far as it can be known now, and
// remembers the process.
func (m *Mapper) resolve(p process) process {
	c := p.cgroup
	switch {
	case p.Owner.Kind != gpu.OwnerPending:
	case c.host:
		p.Owner = gpu.Owner{Kind: gpu.OwnerHost, ContainerID: c.containerID}
	case c.containerID == "":
		p.Owner = gpu.Owner{Kind: gpu.OwnerUnmapped}
	default:
		p.Owner.ContainerID = c.containerID
		if container, ok := m.names.lookup(c.podUID, c.containerID, p.first); ok {
			p.Owner.Kind, p.Owner.Container = gpu.OwnerContainer, container
			m.expect(container)
		} else if p.asks < maxAsks {
			p.asks++
			m.askSoon()
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.processes[p.ID] = p
	return p
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

// expect has the kubelet asked once more, soon, if it did not yet say what the
// container of a new process holds.
func (m *Mapper) expect(c gpu.Container) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, a := range m.held {
		if a.Container.Container == "" {
			a.Container.Container = c.Container
		}
		if a.Container == c && a.Live {
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
