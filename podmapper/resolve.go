package podmapper

import (
	"time"
	"unique"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
)

// podAfter is the time for which a process waits for the name of its container. After this time, the process is
// attributed to its pod. The ledger waits longer for owners before it settles an interval.
const podAfter = 5 * time.Second

// process is a process in a pod. The pod may be unknown.
type process struct {
	mapper *Mapper
	cgroup unique.Handle[cgroup]
	owner  gpu.Owner     // last known owner
	first  time.Duration // boot-clock time at which the process was first seen
}

// Resolve implements [owner.Resolver] for the processes of pods.
func (m *Mapper) Resolve(p owner.Process) func() owner.Answer {
	c, _ := parseCgroup(p.Cgroup) // after an error, the zero cgroup represents a pod that cannot be identified
	if c.host {
		return nil
	}
	q := &process{mapper: m, cgroup: unique.Make(c), first: p.First}
	return q.answer
}

func (p *process) answer() owner.Answer {
	c := p.cgroup.Value()
	if c == (cgroup{}) {
		return owner.Answer{Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}, Final: true}
	}
	m := p.mapper
	found, ok := m.containerOf(p, c)
	if !ok && m.cfg.Now().Boot-p.first < podAfter {
		m.requestPoll() // the kubelet may list the container a moment later
	}
	if found != p.owner {
		p.owner = found
		m.pollIfNew(found)
	}
	return owner.Answer{Owner: found, ContainerID: c.containerID, Final: found.Part != ""}
}

// containerOf returns the container of a process in a pod. If the container is still unknown after the time podAfter,
// it returns the pod. Before Kubernetes 1.37, a container with a long name may stay unknown, because the kubelet
// truncates the id in the container's log link.
func (m *Mapper) containerOf(p *process, c cgroup) (gpu.Owner, bool) {
	now := m.cfg.Now().Boot
	if p.owner.Kind == gpu.OwnerPod { // only the pod of the process is known
		if container, ok := m.names.indexed(c.podUID, c.containerID, now); ok {
			return container, true
		}
		return p.owner, true
	}
	if container, ok := m.names.lookup(c.podUID, c.containerID, p.first); ok {
		return container, true
	}
	if now-p.first < podAfter {
		return gpu.Owner{}, false
	}
	return m.names.pod(c.podUID)
}

// pollIfNew requests an early poll if the kubelet has not yet reported allocations of the owner.
func (m *Mapper) pollIfNew(o gpu.Owner) {
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
	m.requestPoll()
}
