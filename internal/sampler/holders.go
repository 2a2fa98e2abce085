package sampler

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// usage is who holds a GPU, and who uses it.
type usage struct {
	held    []gpu.Allocation // live
	tenants []guest          // processes of containers
	// known is set while the kubelet says who was given what.
	known bool
	// unheard reports whether the kubelet was not asked since a container came.
	unheard func(gpu.Owner) bool
	// unplaced are the allocations of which it cannot be told what GPU they are of.
	unplaced []gpu.Allocation
}

// uses reports whether a container's process is on what its pod was given.
func (g guest) uses(a gpu.Allocation) bool {
	return g.Owner.UID == a.Owner.UID && (g.GPUInstance == a.GPUInstance || a.GPUInstance == "")
}

// usage compares the processes on a GPU with its allocations. Of the kubelet's last
// word, when that is not known to be true any more, the allocations of those pods count
// that use them: they live, and a pod keeps for life what it was given.
func (s *Sampler) usage(uuid string, v view) usage {
	present := v.attendance[uuid].present
	u := usage{known: v.givenKnown, unplaced: s.given[""], tenants: make([]guest, 0, len(present))}
	for _, g := range present {
		if g.Owner.Kind.HasAccount() {
			u.tenants = append(u.tenants, g)
		}
	}
	u.unheard = func(c gpu.Owner) bool { return s.tenancies[c].first > s.asked }
	u.held = slices.DeleteFunc(slices.Clone(s.given[uuid]), func(a gpu.Allocation) bool {
		counts := u.known && a.Live || !u.known && u.used(a)
		return a.Owner.UID == "" || !counts
	})
	return u
}

// holdsGPU reports whether the kubelet gave a pod some GPU, by its last word.
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

// used reports whether the pod of an allocation is on what it was given.
func (u *usage) used(a gpu.Allocation) bool {
	return slices.ContainsFunc(u.tenants, func(t guest) bool { return t.uses(a) })
}

// tenancies are when each container was first seen on a GPU, and last (boot clock).
type tenancies map[gpu.Owner]tenancy

type tenancy struct{ first, last time.Duration }

// tenancyMemory is how long a container is remembered that uses no GPU, so that one that
// comes and goes is not new each time.
const tenancyMemory = 10 * time.Minute

// see notes who is on the GPUs, and drops who has long gone.
func (t tenancies) see(on map[string]attendance, now time.Duration) {
	for _, who := range on {
		for _, g := range who.present {
			if !g.Owner.Kind.HasAccount() {
				continue
			}
			seen, known := t[g.Owner]
			if !known {
				seen.first = now
			}
			t[g.Owner] = tenancy{seen.first, now}
		}
	}
	maps.DeleteFunc(t, func(_ gpu.Owner, seen tenancy) bool { return now-seen.last > tenancyMemory })
}

// byGPU returns the allocations of each GPU, and under "" those of no GPU that is known.
func byGPU(list []gpu.Allocation) map[string][]gpu.Allocation {
	out := make(map[string][]gpu.Allocation)
	for _, a := range list {
		out[a.UUID] = append(out[a.UUID], a)
	}
	return out
}

// holders lists the containers that hold the GPU, and those that only use it. The
// latter share what another container of their pod holds, if one does: the kubelet
// may not list what init containers were given. A pod whose container is not known is
// not listed beside what it holds.
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
	for _, t := range u.tenants {
		key := gpu.AccountKey{GPUInstance: t.GPUInstance, Owner: t.Owner}
		if listed(key) || t.Owner.Part == "" && u.heldByPod(t) >= 0 {
			continue
		}
		h := gpu.Holder{AccountKey: key, Sharing: gpu.SharingNone}
		if !u.known || u.mayHold(t) {
			h.Sharing = gpu.SharingUnknown
		}
		if i := u.heldByPod(t); i >= 0 {
			h.Resource, h.Claim, h.Sharing = u.held[i].Resource, u.held[i].Claim, u.held[i].Sharing
		}
		out = append(out, h)
	}
	return out
}

// heldByPod returns the position of an allocation of the tenant's pod, or -1.
func (u *usage) heldByPod(t guest) int {
	return slices.IndexFunc(u.held, t.uses)
}

// mayHold reports whether the tenant's pod was given something that may be what it uses, or
// may have been since the kubelet was asked.
func (u *usage) mayHold(t guest) bool {
	return u.unheard(t.Owner) || slices.ContainsFunc(u.unplaced, func(a gpu.Allocation) bool { return a.Owner.UID == t.Owner.UID })
}

// strays counts the processes whose pod does not hold what they use.
func (u *usage) strays() int {
	n := 0
	for _, t := range u.tenants {
		if u.heldByPod(t) < 0 && !u.mayHold(t) {
			n++
		}
	}
	return n
}

// unused counts the allocations that no process of their pod uses.
func (u *usage) unused() int {
	n := 0
	for _, a := range u.held {
		if !u.used(a) {
			n++
		}
	}
	return n
}
