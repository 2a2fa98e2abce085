package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// divide resolves the processes of an interval to their owners, and divides it into
// its parts: one, or one for each MIG instance and one for what is free.
func (iv *interval) divide(owners Owners) []part {
	iv.resolve(owners)
	if iv.mig == nil {
		p := iv.part("", iv.energy, gpu.Exclusive)
		p.busy, p.measured = iv.busy, iv.measured
		return []part{p}
	}
	weights, method := iv.weighInstances()
	amounts := apportion(iv.energy, weights)
	parts := make([]part, 0, len(amounts))
	add := func(instance string, amount gpu.Millijoules) {
		p := iv.part(instance, amount, method)
		p.busy, p.measured = iv.instances[instance] > 0, iv.divided
		parts = append(parts, p)
	}
	for k, i := range iv.mig.Instances {
		add(i.ID, amounts[k])
	}
	add("", amounts[len(amounts)-1])
	return parts
}

// weighInstances returns the weights of a GPU's instances, and at the end of what is
// free, and how they were found: by the time each was busy times its slices, or,
// where none was or that is not known, by the slices alone.
func (iv *interval) weighInstances() ([]uint64, gpu.Method) {
	weights := sliceWeights(iv.mig)
	if !iv.divided {
		return weights, gpu.Allocated
	}
	active := make([]uint64, len(weights))
	for k, i := range iv.mig.Instances {
		active[k] = weights[k] * uint64(iv.instances[i.ID])
	}
	if !slices.ContainsFunc(active, func(w uint64) bool { return w > 0 }) {
		return weights, gpu.Allocated
	}
	return active, gpu.Shared
}

// maxSlices is more slices than any GPU or instance has. The weights are times multiplied
// by slices, and drivers fill numbers that they do not know with ones.
const maxSlices = 64

// sliceWeights returns the slices of each instance, and at the end the free ones.
func sliceWeights(m *gpu.MIG) []uint64 {
	weights := make([]uint64, 0, len(m.Instances)+1)
	used := 0
	for _, i := range m.Instances {
		n := bounded(i.Slices)
		weights = append(weights, uint64(n))
		used += n
	}
	free := max(bounded(m.Slices)-used, 0)
	if used+free == 0 {
		free = 1 // the driver said nothing: the whole is free
	}
	return append(weights, uint64(free))
}

func bounded(slices int) int { return min(max(slices, 0), maxSlices) }

// place returns the instance a process is on, empty if the GPU has no such one.
func (iv *interval) place(id gpu.ProcessID) string {
	place := iv.places[id]
	if iv.mig == nil || !slices.ContainsFunc(iv.mig.Instances, func(i gpu.Instance) bool { return i.ID == place }) {
		return ""
	}
	return place
}

// sameLayout reports whether a GPU is divided as it was.
func sameLayout(a, b *gpu.MIG) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Slices == b.Slices && slices.EqualFunc(a.Instances, b.Instances, func(i, j gpu.Instance) bool {
		return i.ID == j.ID && i.Profile == j.Profile && i.Slices == j.Slices
	})
}
