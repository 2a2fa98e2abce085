package unit

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
)

// other is the name of the unit that combines all units of a manager above the limit --units.max.
const other = "other"

// Resolve implements [owner.Resolver] for the processes of units. If a job runs inside a pod, its processes belong to
// the pod, and the answer also names the job.
func (m *Mapper) Resolve(p owner.Process) func() owner.Answer {
	c, ok := m.parser.parse(p.Cgroup)
	id := m.ofEngine(c, ok, p.Cgroup)
	ok = ok && m.enabled(c.manager)
	if ok || id != "" {
		m.see(c, p.PID)
	}
	switch {
	case id != "" && ok:
		return m.resolveParented(id, p, func() owner.Answer { return m.answer(c, p.First) })
	case id != "":
		return m.resolveParented(id, p, nil)
	case !ok:
		return nil
	case !c.inPod:
		return func() owner.Answer { return m.answer(c, p.First) }
	}
	resolve := m.cfg.Pods.Resolve(p)
	if resolve == nil {
		return nil
	}
	return func() owner.Answer {
		a := resolve()
		u, known := m.unit(c, p.First)
		a.Unit, a.Final = u, a.Final && known
		return a
	}
}

func (m *Mapper) enabled(manager string) bool {
	if manager == User && m.cfg.Users == UsersNone {
		return false
	}
	return slices.Contains(m.cfg.Managers, manager) ||
		slices.ContainsFunc(m.cfg.Patterns, func(p Manager) bool { return p.Name == manager })
}

func (m *Mapper) see(c match, pid uint32) {
	if c.manager == Slurm && c.uid == "" {
		c.uid, _ = m.tree.UID(pid)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.active {
		m.active = true
		m.requestPoll()
	}
	if isNumber(c.uid) && c.uid != "0" {
		m.uids[gpu.Unit{Manager: c.manager, Name: c.id}] = c.uid // if the id of a Slurm job is unknown, its SLUID is its name
	}
}

// unit returns the unit for a match, or false while the name of the unit is unknown. first is the boot-clock time at
// which the process was first seen. If the name stays unknown for nameAfter after first, unit uses the id as the name.
// unit never changes a name, because a new name would need a new counter.
func (m *Mapper) unit(c match, first time.Duration) (gpu.Unit, bool) {
	now := m.cfg.Now().Boot
	if isSLUID(c.id) && c.manager == Slurm && m.nameOf(m.jobs, c.id) == "" {
		m.findJob(now)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	name := c.id
	switch {
	case c.named():
	case c.manager == Slurm:
		name = m.final(m.jobs, c.id, c.id, first, now)
	default:
		name = m.final(m.names, c.key(), m.qualify(c, c.id[:12]), first, now)
	}
	if name == "" {
		m.requestPoll()
		return gpu.Unit{}, false
	}
	return m.admit(gpu.Unit{Manager: c.manager, Name: name}, now), true
}

func (m *Mapper) nameOf(names map[string]dated, id string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return names[id].name
}

// final returns the final name for an id. It returns "" while the name may still become known. The caller holds m.mu.
func (m *Mapper) final(names map[string]dated, id, fallback string, first, now time.Duration) string {
	d, known := names[id]
	if !known || d.name == "" {
		if now-first < nameAfter {
			return ""
		}
		d.name = fallback
	}
	d.last = now
	names[id] = d
	return d.name
}

// admit returns u. If u is new and --units.max is reached, it returns the unit named other. The caller holds m.mu.
func (m *Mapper) admit(u gpu.Unit, now time.Duration) gpu.Unit {
	if _, known := m.units[u]; !known && len(m.units) >= m.cfg.Max {
		return gpu.Unit{Manager: u.Manager, Name: other}
	}
	m.units[u] = now
	return u
}

func (m *Mapper) requestPoll() {
	select {
	case m.extra <- struct{}{}:
	default:
	}
}
