package sampler

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func allocationsOf(uuid string, all gpu.Allocations) []gpu.Allocation {
	var out []gpu.Allocation
	for _, a := range all.List {
		if a.UUID == uuid {
			out = append(out, a)
		}
	}
	return out
}

// holders lists the live containers that hold a GPU, and those that use it
// without holding it.
func holders(uuid string, processes []gpu.Process, allocations gpu.Allocations) []gpu.Holder {
	var out []gpu.Holder
	listed := func(k gpu.AccountKey) bool {
		return slices.ContainsFunc(out, func(h gpu.Holder) bool { return h.AccountKey == k })
	}
	for _, a := range allocationsOf(uuid, allocations) {
		key := gpu.AccountKey{GPUInstance: a.GPUInstance, Container: a.Container}
		if a.Live && a.Container.PodUID != "" && !listed(key) {
			out = append(out, gpu.Holder{
				AccountKey: key, Resource: a.Resource, Claim: a.Claim, Sharing: a.Sharing, Replicas: a.Replicas,
			})
		}
	}
	for _, p := range processes {
		key := gpu.AccountKey{Container: p.Owner.Container}
		if p.Owner.Kind == gpu.OwnerContainer && !listed(key) {
			out = append(out, gpu.Holder{AccountKey: key, Sharing: gpu.SharingNone})
		}
	}
	return out
}
