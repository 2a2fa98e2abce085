package podmapper

import (
	"errors"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// publish makes the result of a poll visible. After a failed call the last
// answer of the kubelet stands until it is too old, as it does after one that was not
// taken, but a pod that died since is not live.
func (m *Mapper) publish(taken bool, listErr error, held []gpu.Allocation, found witnesses) {
	of := make(witnesses)
	for _, a := range held {
		if list := found[a.Container.PodUID]; a.Live && len(list) > 0 {
			of[a.Container.PodUID] = list
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held, m.witnesses = held, of
	m.noKubelet = errors.Is(listErr, errNoKubelet)
	if taken {
		m.answered = new(m.cfg.Now().Boot)
	}
}

// Allocations returns who holds which device, by the kubelet's last answer, sorted
// by device and container; the list must not be changed. It is known while that
// answer is at most three polls old. A host that has, and since the start had,
// neither the kubelet's socket nor its directory is a host without a kubelet:
// known to have given nothing away. A pod whose last known process ended since the
// last poll is not live, and the next poll comes sooner.
func (m *Mapper) Allocations() gpu.Allocations {
	m.mu.Lock()
	held, of, fresh := m.held, m.witnesses, m.fresh()
	noKubelet := m.noKubelet
	m.mu.Unlock()
	switch {
	case noKubelet:
		return gpu.Allocations{Known: true}
	case !fresh:
		return gpu.Allocations{}
	}
	return gpu.Allocations{Known: true, List: m.recheck(held, of)}
}

// fresh reports whether the kubelet's last answer still counts. The caller holds
// m.mu.
func (m *Mapper) fresh() bool {
	return m.answered != nil && m.cfg.Now().Boot-*m.answered <= freshPolls*m.cfg.Poll
}

// recheck returns the list without the lives of pods whose witnesses are gone.
func (m *Mapper) recheck(held []gpu.Allocation, of witnesses) []gpu.Allocation {
	dead := make(map[string]bool)
	for uid, list := range of {
		if !m.proc.stillAlive(list) {
			dead[uid] = true
		}
	}
	if len(dead) == 0 {
		return held
	}
	m.askSoon()
	held = slices.Clone(held)
	for i := range held {
		held[i].Live = held[i].Live && !dead[held[i].Container.PodUID]
	}
	return held
}
