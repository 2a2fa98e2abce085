package sampler

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// usage is who holds a GPU, and who uses it.
type usage struct {
	held    []gpu.Allocation // live
	tenants []guest          // processes of containers
	// known is set while the kubelet says who was given what.
	known bool
	// unplaced are the allocations of which it cannot be told what GPU they are of.
	unplaced []gpu.Allocation
}

// uses reports whether a container's process is on what its pod was given.
func (g guest) uses(a gpu.Allocation) bool {
	return g.Owner.Container.PodUID == a.Container.PodUID && (g.GPUInstance == a.GPUInstance || a.GPUInstance == "")
}

// usageOf compares the processes on a GPU with its allocations. Of the kubelet's last
// word, when that is not known to be true any more, the allocations of those pods count
// that use them: they live, and a pod keeps for life what it was given.
func usageOf(who attendance, allocations, unplaced []gpu.Allocation, known bool) usage {
	u := usage{known: known, unplaced: unplaced, tenants: make([]guest, 0, len(who.present))}
	for _, g := range who.present {
		if g.Owner.Kind == gpu.OwnerContainer {
			u.tenants = append(u.tenants, g)
		}
	}
	u.held = slices.DeleteFunc(slices.Clone(allocations), func(a gpu.Allocation) bool {
		counts := known && a.Live || !known && u.used(a)
		return a.Container.PodUID == "" || !counts
	})
	return u
}

// used reports whether the pod of an allocation is on what it was given.
func (u *usage) used(a gpu.Allocation) bool {
	return slices.ContainsFunc(u.tenants, func(t guest) bool { return t.uses(a) })
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
// may not list what init containers were given.
func (u *usage) holders() []gpu.Holder {
	var out []gpu.Holder
	listed := func(k gpu.AccountKey) bool {
		return slices.ContainsFunc(out, func(h gpu.Holder) bool { return h.AccountKey == k })
	}
	for _, a := range u.held {
		out = append(out, gpu.Holder{
			AccountKey: gpu.AccountKey{GPUInstance: a.GPUInstance, Container: a.Container},
			Resource:   a.Resource, Claim: a.Claim, Sharing: a.Sharing, Replicas: a.Replicas,
		})
	}
	for _, t := range u.tenants {
		key := gpu.AccountKey{GPUInstance: t.GPUInstance, Container: t.Owner.Container}
		if listed(key) {
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

// mayHold reports whether the tenant's pod was given something that may be what it uses.
func (u *usage) mayHold(t guest) bool {
	return slices.ContainsFunc(u.unplaced, func(a gpu.Allocation) bool { return a.Container.PodUID == t.Owner.Container.PodUID })
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
