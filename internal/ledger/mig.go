package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// divide returns one part for a whole GPU. In MIG mode it returns one part for each instance, followed by a part for
// the free slices.
func (iv *interval) divide(owners Owners) []part {
	iv.resolve(owners)
	iv.countUsers()
	if iv.mig == nil {
		p := iv.part("")
		p.slices, p.worked = 1, iv.busy
		return []part{p}
	}
	weights := sliceWeights(iv.mig)
	parts := make([]part, 0, len(weights))
	for k, i := range iv.mig.Instances {
		p := iv.part(i.ID)
		p.slices, p.active = weights[k], min(iv.instances[i.ID], iv.span().Len())
		p.worked = p.active > 0
		parts = append(parts, p)
	}
	free := iv.part("")
	free.slices = weights[len(weights)-1]
	return append(parts, free)
}

// price divides the energy of the interval over the parts. For idle energy, the weight of a part is its number of
// slices times its idle time. For busy energy, it is the number of slices times the busy time. Free slices get a part
// of the idle energy. If the busy time is unknown, the weight is only the number of slices.
func (iv *interval) price(parts []part, idle gpu.Millijoules) {
	if iv.mig == nil {
		parts[0].idle, parts[0].busy = idle, iv.energy-idle
		return
	}
	took := iv.span().Len()
	rest, work, size := make([]uint64, len(parts)), make([]uint64, len(parts)), make([]uint64, len(parts))
	var resting, working uint64
	for k := range parts {
		p := &parts[k]
		size[k], rest[k], work[k] = p.slices, p.slices*uint64(took-p.active), p.slices*uint64(p.active)
		resting, working = resting+rest[k], working+work[k]
	}
	method := gpu.Shared
	switch {
	case !iv.divided || working == 0:
		method, work = gpu.Allocated, size
		if resting == 0 || !iv.divided {
			rest = size
		}
	case resting == 0:
		rest = work
	}
	idles, busies := apportion(idle, rest), apportion(iv.energy-idle, work)
	for k := range parts {
		parts[k].idle, parts[k].busy, parts[k].method = idles[k], busies[k], method
	}
}

// maxSlices is larger than the number of slices of any GPU. Some drivers set all bits of an unknown number of slices.
// Without a limit, a weight (a time multiplied by a number of slices) could overflow.
const maxSlices = 64

// sliceWeights returns the number of slices of each instance, followed by the number of free slices.
func sliceWeights(m *gpu.Partitioning) []uint64 {
	weights := make([]uint64, 0, len(m.Instances)+1)
	used := 0
	for _, i := range m.Instances {
		n := bounded(i.Slices)
		weights = append(weights, uint64(n))
		used += n
	}
	free := max(bounded(m.Slices)-used, 0)
	if used+free == 0 {
		free = 1 // the driver reported no slices, so the whole GPU is free
	}
	return append(weights, uint64(free))
}

func bounded(slices int) int { return min(max(slices, 0), maxSlices) }

// place returns an empty string if the GPU does not have the instance of the process.
func (iv *interval) place(id gpu.ProcessID) string {
	place := iv.places[id]
	if iv.mig == nil || !slices.ContainsFunc(iv.mig.Instances, func(i gpu.Partition) bool { return i.ID == place }) {
		return ""
	}
	return place
}

func sameLayout(a, b *gpu.Partitioning) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Slices == b.Slices && slices.EqualFunc(a.Instances, b.Instances, func(i, j gpu.Partition) bool {
		return i.ID == j.ID && i.Profile == j.Profile && i.Slices == j.Slices
	})
}
