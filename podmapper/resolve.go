package podmapper

import (
	"time"
	"unique"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/owner"
)

// podAfter is how long a process waits for its container's name before its pod owns
// it: less than an interval waits for its settlement.
const podAfter = 5 * time.Second

// process is a process of a pod, or of one that cannot be named.
type process struct {
	mapper *Mapper
	cgroup unique.Handle[cgroup]
	owner  gpu.Owner     // as it was last resolved
	first  time.Duration // when the process was first seen, boot clock
}

// Resolve implements [owner.Resolver] for the processes of pods.
func (m *Mapper) Resolve(p owner.Process) func() owner.Answer {
	c, _ := parseCgroup(p.Cgroup) // an error leaves the cgroup of a pod that cannot be named
	if c.host {
		return nil
	}
	q := &process{mapper: m, cgroup: unique.Make(c), first: p.First}
	return q.answer
}

// answer returns the container of the process as far as it can be known now.
func (p *process) answer() owner.Answer {
	c := p.cgroup.Value()
	if c == (cgroup{}) {
		return owner.Answer{Owner: gpu.Owner{Kind: gpu.OwnerUnmapped}, Final: true}
	}
	m := p.mapper
	found, ok := m.containerOf(p, c)
	if !ok && m.cfg.Now().Boot-p.first < podAfter {
		m.askSoon() // the kubelet may need a moment to know its container
	}
	if found != p.owner {
		p.owner = found
		m.expect(found)
	}
	return owner.Answer{Owner: found, ContainerID: c.containerID, Final: found.Part != ""}
}

// containerOf names the container of a process of a pod. After a while without a name it
// is that of the pod, without a container: before Kubernetes 1.37 the kubelet cuts the
// ids of containers with long names.
func (m *Mapper) containerOf(p *process, c cgroup) (gpu.Owner, bool) {
	now := m.cfg.Now().Boot
	if p.owner.Kind == gpu.OwnerPod { // only its pod is known
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

// expect requests an early poll if the kubelet has not yet reported the allocations of a new
// process's owner.
func (m *Mapper) expect(o gpu.Owner) {
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
