package podmapper

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// publish stores the result of a poll for the sampler. If the call failed or its response was ignored, requested is
// nil, and the previous list stays valid until it is stale. In this case, publish marks pods that have ended since that
// list as not live. livenessKnown is set if the Pods API reported which pods are alive.
func (m *Mapper) publish(requested *time.Duration, held []gpu.Allocation, alive map[string]bool, found podProcesses, livenessKnown bool) {
	of := make(podProcesses)
	for _, a := range held {
		if list := found[a.Owner.UID]; a.Live && len(list) > 0 {
			of[a.Owner.UID] = list
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.alive, m.podProcesses, m.livenessKnown = held, alive, of, livenessKnown
	m.requested = cmp.Or(requested, m.requested)
}

// Allocations returns the last known allocations, sorted by device and container. The list must not be changed. If
// several containers of a pod refer to a claim, the allocation of the claimed device names the pod but no container.
//
// The list is valid for at most three poll intervals after its request. After that, only the UIDs of live pods are
// known. If the exporter is configured without a kubelet, there are no allocations, and use without an allocation is
// not reported. A missing socket does not prove that there is no kubelet, because the socket may not be mounted.
//
// When the last known process of a pod has ended, Allocations requests an early poll. Until that poll, the pod counts
// as not live, unless the Pods API reported it as alive. A pod that is alive may have no processes while it waits for a
// restart of its container.
func (m *Mapper) Allocations() gpu.Allocations {
	m.mu.Lock()
	held, alive, of, fresh, requested := m.held, m.alive, m.podProcesses, m.fresh(), m.requested
	livenessKnown := m.livenessKnown
	m.mu.Unlock()
	if m.cfg.PodResources == "" {
		return gpu.Allocations{Known: true, Optional: true}
	}
	deadPods := m.deadPods(of)
	if !fresh {
		alive = maps.Clone(alive)
		maps.DeleteFunc(alive, func(uid string, _ bool) bool { return deadPods[uid] })
		return gpu.Allocations{Alive: alive}
	}
	if len(deadPods) > 0 {
		m.requestPoll()
	}
	if len(deadPods) == 0 || livenessKnown {
		return gpu.Allocations{Known: true, Requested: *requested, List: held}
	}
	return gpu.Allocations{Known: true, Requested: *requested, List: markDead(held, deadPods)}
}

// fresh reports whether the last accepted list is still valid. The caller holds m.mu.
func (m *Mapper) fresh() bool {
	return m.requested != nil && m.cfg.Now().Boot-*m.requested <= freshPolls*m.cfg.Poll
}

// deadPods returns the UIDs of those pods in the map that have no running process. It returns no UIDs while the
// exporter cannot see the host's processes.
func (m *Mapper) deadPods(of podProcesses) map[string]bool {
	deadPods := make(map[string]bool)
	if m.sight.Blind() {
		return deadPods
	}
	for uid, list := range of {
		if !anyAlive(m.tree, list) {
			deadPods[uid] = true
		}
	}
	return deadPods
}

// markDead returns a copy of the list in which the given pods are not live.
func markDead(held []gpu.Allocation, deadPods map[string]bool) []gpu.Allocation {
	held = slices.Clone(held)
	for i := range held {
		held[i].Live = held[i].Live && !deadPods[held[i].Owner.UID]
	}
	return held
}
