package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func replicas(holders []gpu.Allocation) []uint64 {
	weights := make([]uint64, len(holders))
	for i, h := range holders {
		weights[i] = uint64(h.Replicas)
	}
	return weights
}

// liveHolders are the allocations that count: fresh, and of a pod known by its UID to
// be alive.
func (iv *interval) liveHolders() []gpu.Allocation {
	if !iv.holdersKnown {
		return nil
	}
	return live(iv.holders)
}

func live(allocations []gpu.Allocation) []gpu.Allocation {
	var out []gpu.Allocation
	for _, h := range allocations {
		if h.Live && h.Container.PodUID != "" && h.Replicas > 0 {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b gpu.Allocation) int { return compareAccount(keyOf(a), keyOf(b)) })
	return out
}

// keyOf returns the key of the account that an allocation's container has.
func keyOf(a gpu.Allocation) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: a.GPUInstance, Container: a.Container}
}
