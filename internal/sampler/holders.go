package sampler

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type usage struct {
	held  []gpu.Allocation // allocations of live owners
	users []gpuProcess     // processes of owners that have accounts
	// required is set if an owner needs an allocation to use a GPU.
	known, required bool
	// reserved is set if the GPU is reserved for unknown pods.
	reserved bool
	// unlisted reports whether an owner started after the last request to the kubelet for allocations.
	unlisted func(gpu.Owner) bool
	// unplaced contains the allocations of unknown GPUs.
	unplaced []gpu.Allocation
}

func (g gpuProcess) uses(a gpu.Allocation) bool {
	return g.Owner.UID == a.Owner.UID && (g.GPUInstance == a.GPUInstance || a.GPUInstance == "")
}

// usage compares the processes on a GPU with its allocations. If the list of allocations is outdated, it includes only
// the allocations of pods that use the GPU. These allocations are still valid, because a pod keeps its allocations
// until it ends.
func (s *Sampler) usage(uuid string, v view) usage {
	present := v.processes[uuid].present
	u := usage{known: v.allocationsKnown, required: v.required, unplaced: s.given[""], users: make([]gpuProcess, 0, len(present))}
	for _, g := range present {
		if g.Owner.Kind.HasAccount() {
			u.users = append(u.users, g)
		}
	}
	u.unlisted = s.unlisted
	u.held = slices.DeleteFunc(slices.Clone(s.given[uuid]), func(a gpu.Allocation) bool {
		counts := u.known && a.Live || !u.known && u.used(a)
		return a.Owner.UID == "" || a.Reserved || !counts
	})
	u.reserved = slices.ContainsFunc(s.given[uuid], func(a gpu.Allocation) bool { return a.Reserved })
	return u
}

func (s *Sampler) unlisted(c gpu.Owner) bool { return s.seen[c].first > s.requested }

// holdsGPU uses the last known allocations.
func (s *Sampler) holdsGPU(c gpu.Owner) bool {
	for _, list := range s.given {
		if slices.ContainsFunc(list, func(a gpu.Allocation) bool {
			return a.Owner.Scope == c.Scope && a.Owner.Name == c.Name
		}) {
			return true
		}
	}
	return false
}

func (u *usage) used(a gpu.Allocation) bool {
	return slices.ContainsFunc(u.users, func(t gpuProcess) bool { return t.uses(a) })
}

// ownersSeen contains the first and the last time (boot clock) at which each owner was on a GPU.
type ownersSeen map[gpu.Owner]seenSpan

type seenSpan struct{ first, last time.Duration }

// rememberOwners is the time for which an owner that left its GPU is remembered. An owner that returns within this time
// does not count as new.
const rememberOwners = 10 * time.Minute

func (t ownersSeen) update(on map[string]processUsage, now time.Duration) {
	for _, who := range on {
		for _, g := range who.present {
			if !g.Owner.Kind.HasAccount() {
				continue
			}
			seen, known := t[g.Owner]
			if !known {
				seen.first = now
			}
			t[g.Owner] = seenSpan{seen.first, now}
		}
	}
	maps.DeleteFunc(t, func(_ gpu.Owner, seen seenSpan) bool { return now-seen.last > rememberOwners })
}

// Allocations of unknown GPUs have the key "".
func byGPU(list []gpu.Allocation) map[string][]gpu.Allocation {
	out := make(map[string][]gpu.Allocation)
	for _, a := range list {
		out[a.UUID] = append(out[a.UUID], a)
	}
	return out
}

// holders returns the holders and the other users of the GPU. The kubelet may not list allocations of init containers.
// Therefore holders gives a container without an allocation the resource, claim and sharing of its pod's first
// allocation.
//
// If only the pod of a process is known and the pod has an allocation, holders lists only the container with the
// allocation.
func (u *usage) holders() []gpu.Holder {
	var out []gpu.Holder
	listed := func(k gpu.AccountKey) bool {
		return slices.ContainsFunc(out, func(h gpu.Holder) bool { return h.AccountKey == k })
	}
	for _, a := range u.held {
		out = append(out, gpu.Holder{
			AccountKey: gpu.AccountKey{GPUInstance: a.GPUInstance, Owner: a.Owner},
			Resource:   a.Resource, Claim: a.Claim, Sharing: a.Sharing, Replicas: a.Replicas,
		})
	}
	for _, t := range u.users {
		key := gpu.AccountKey{GPUInstance: t.GPUInstance, Owner: t.Owner}
		if listed(key) || t.Owner.Part == "" && u.heldByPod(t) >= 0 {
			continue
		}
		h := gpu.Holder{AccountKey: key, Sharing: gpu.SharingNone}
		if !u.known || !u.required || u.mayHold(t) {
			h.Sharing = gpu.SharingUnknown
		}
		if i := u.heldByPod(t); i >= 0 {
			h.Resource, h.Claim, h.Sharing = u.held[i].Resource, u.held[i].Claim, u.held[i].Sharing
		}
		out = append(out, h)
	}
	return out
}

// heldByPod returns the index of an allocation to the process's pod, or -1.
func (u *usage) heldByPod(t gpuProcess) int {
	return slices.IndexFunc(u.held, t.uses)
}

// mayHold reports whether the pod of a process may hold this GPU. There are three reasons: the GPU is reserved for
// unknown pods, the pod has an allocation of an unknown GPU, or the pod may have received an allocation since the last
// request to the kubelet.
func (u *usage) mayHold(t gpuProcess) bool {
	return u.reserved || u.unlisted(t.Owner) || slices.ContainsFunc(u.unplaced, func(a gpu.Allocation) bool { return a.Owner.UID == t.Owner.UID })
}

// A stray is a process in a pod that neither holds nor may hold the GPU.
func (u *usage) strays() int {
	n := 0
	for _, t := range u.users {
		if u.heldByPod(t) < 0 && !u.mayHold(t) {
			n++
		}
	}
	return n
}

// An allocation is unused if no process of its pod uses the GPU.
func (u *usage) unused() int {
	n := 0
	for _, a := range u.held {
		if !u.used(a) {
			n++
		}
	}
	return n
}
