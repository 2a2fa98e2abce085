package ledger

import (
	"iter"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// inOrder returns a sorted copy. The order must be fixed, because apportion gives a remaining unit to the earlier of
// two equal parts.
func inOrder(allocations []gpu.Allocation) []gpu.Allocation {
	sorted := slices.Clone(allocations)
	slices.SortFunc(sorted, func(a, b gpu.Allocation) int { return compareAccount(keyOf(a), keyOf(b)) })
	return sorted
}

// While the kubelet does not respond, liveHolders also returns holders that are only presumed.
func (iv *interval) liveHolders() iter.Seq[*gpu.Allocation] { return liveAllocations(iv.holders) }

// An allocation is live if it is up to date and its pod is alive with a known UID.
func liveAllocations(allocations []gpu.Allocation) iter.Seq[*gpu.Allocation] {
	return func(yield func(*gpu.Allocation) bool) {
		for h := range identified(allocations) {
			if h.Live && !yield(h) {
				return
			}
		}
	}
}

func identified(allocations []gpu.Allocation) iter.Seq[*gpu.Allocation] {
	return func(yield func(*gpu.Allocation) bool) {
		for i := range allocations {
			if h := &allocations[i]; h.Owner.UID != "" && h.Replicas > 0 && !yield(h) {
				return
			}
		}
	}
}

func contains(allocations iter.Seq[*gpu.Allocation], key gpu.AccountKey) bool {
	for h := range allocations {
		if keyOf(*h) == key {
			return true
		}
	}
	return false
}

func keyOf(a gpu.Allocation) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: a.GPUInstance, Owner: a.Owner}
}
