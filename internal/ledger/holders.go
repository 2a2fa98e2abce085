package ledger

import (
	"iter"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// inOrder returns a copy of the allocations, sorted by account key, so that apportion always
// treats equal remainders in the same way.
func inOrder(allocations []gpu.Allocation) []gpu.Allocation {
	sorted := slices.Clone(allocations)
	slices.SortFunc(sorted, func(a, b gpu.Allocation) int { return compareAccount(keyOf(a), keyOf(b)) })
	return sorted
}

// liveHolders returns the live allocations of the interval, including presumed allocations.
func (iv *interval) liveHolders() iter.Seq[*gpu.Allocation] { return liveAllocations(iv.holders) }

// liveAllocations returns the live allocations. An allocation is live if it is up to date, and if
// its pod is alive and has a known UID.
func liveAllocations(allocations []gpu.Allocation) iter.Seq[*gpu.Allocation] {
	return func(yield func(*gpu.Allocation) bool) {
		for h := range identified(allocations) {
			if h.Live && !yield(h) {
				return
			}
		}
	}
}

// identified returns the allocations of pods with a known UID, whether or not the allocations are
// live.
func identified(allocations []gpu.Allocation) iter.Seq[*gpu.Allocation] {
	return func(yield func(*gpu.Allocation) bool) {
		for i := range allocations {
			if h := &allocations[i]; h.Owner.UID != "" && h.Replicas > 0 && !yield(h) {
				return
			}
		}
	}
}

// contains reports whether the allocations include an allocation of the account's owner on the
// account's instance.
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
