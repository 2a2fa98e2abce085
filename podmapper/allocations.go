package podmapper

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// publish makes the result of a poll visible. After a failed call, or an answer that
// was not taken, asked is nil, and the one before stands until it is too old, but a pod
// that died since is not live. lifeTold says that the Pods API told who lives.
func (m *Mapper) publish(asked *time.Duration, held []gpu.Allocation, found podProcesses, lifeTold bool) {
	of := make(podProcesses)
	for _, a := range held {
		if list := found[a.Owner.UID]; a.Live && len(list) > 0 {
			of[a.Owner.UID] = list
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.podProcesses, m.lifeTold = held, of, lifeTold
	m.asked = cmp.Or(asked, m.asked)
}

// Allocations returns who holds which device, by the kubelet's last answer, sorted
// by device and container; the list must not be changed. The container of a claim's
// device has no name if several of its pod have that claim: it is one of them.
//
// The list is known while the answer is at most three polls old. A host that is said to
// have no kubelet is known to have given nothing away, and nobody uses anything there
// without leave; that no socket is there says nothing, since it may not be mounted. Once
// the last known process of a pod ended, the next poll comes sooner; until then the pod is
// not live, unless the Pods API said who lives, which knows of pods between two runs of
// their containers.
func (m *Mapper) Allocations() gpu.Allocations {
	m.mu.Lock()
	held, of, fresh, asked := m.held, m.podProcesses, m.fresh(), m.asked
	lifeTold := m.lifeTold
	m.mu.Unlock()
	switch {
	case m.cfg.PodResources == "":
		return gpu.Allocations{Known: true, NoKubelet: true}
	case !fresh:
		return gpu.Allocations{}
	}
	dead := m.dead(of)
	if len(dead) > 0 {
		m.askSoon()
	}
	if len(dead) == 0 || lifeTold {
		return gpu.Allocations{Known: true, Asked: *asked, List: held}
	}
	return gpu.Allocations{Known: true, Asked: *asked, List: without(held, dead)}
}

// fresh reports whether the kubelet's last answer still counts. The caller holds
// m.mu.
func (m *Mapper) fresh() bool {
	return m.asked != nil && m.cfg.Now().Boot-*m.asked <= freshPolls*m.cfg.Poll
}

// dead returns the UIDs of the pods whose processes are gone.
func (m *Mapper) dead(of podProcesses) map[string]bool {
	dead := make(map[string]bool)
	for uid, list := range of {
		if !anyAlive(m.tree, list) {
			dead[uid] = true
		}
	}
	return dead
}

// without returns a copy of the list in which the given pods do not live.
func without(held []gpu.Allocation, dead map[string]bool) []gpu.Allocation {
	held = slices.Clone(held)
	for i := range held {
		held[i].Live = held[i].Live && !dead[held[i].Owner.UID]
	}
	return held
}
