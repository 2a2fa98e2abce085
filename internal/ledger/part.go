package ledger

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A part is what one MIG instance, or a whole GPU, has of an interval.
type part struct {
	*interval
	// instance is empty for a whole GPU.
	instance string
	energy   gpu.Millijoules
	who      parties
	// holders are its live allocations, allocated tells whether there are any,
	// live or not.
	holders   []gpu.Allocation
	allocated bool
}

// divide resolves the processes of an interval to their owners, and divides it into
// its parts: one, or one for each MIG instance and one for what is free. Without a
// signal of their activity instances bear the energy by their slices.
func (iv *interval) divide(owners Owners) []part {
	iv.resolve(owners)
	if iv.mig == nil {
		return []part{iv.part("", iv.energy)}
	}
	amounts := apportion(iv.energy, sliceWeights(iv.mig))
	parts := make([]part, 0, len(amounts))
	for k, i := range iv.mig.Instances {
		parts = append(parts, iv.part(i.ID, amounts[k]))
	}
	return append(parts, iv.part("", amounts[len(amounts)-1]))
}

// sliceWeights returns the slices of each instance, and at the end the free ones.
func sliceWeights(m *gpu.MIG) []uint64 {
	weights := make([]uint64, 0, len(m.Instances)+1)
	used := 0
	for _, i := range m.Instances {
		n := max(i.Slices, 0)
		weights = append(weights, uint64(n))
		used += n
	}
	free := max(m.Slices-used, 0)
	if used+free == 0 {
		free = 1 // the driver said nothing: the whole is free
	}
	return append(weights, uint64(free))
}

// resolve asks again for the owners of processes that had none yet.
func (iv *interval) resolve(owners Owners) {
	for id, p := range iv.processes {
		if p.Owner.Kind == gpu.OwnerPending {
			p.Owner = owners(id)
			iv.processes[id] = p
		}
	}
}

// part gathers who is on an instance. Who holds the whole GPU holds each of its
// instances.
func (iv *interval) part(instance string, energy gpu.Millijoules) part {
	p := part{interval: iv, instance: instance, energy: energy}
	for _, id := range slices.SortedFunc(maps.Keys(iv.processes), compareProcess) {
		if iv.place(id) == instance {
			p.who.add(iv.processes[id], iv.activity[id])
		}
	}
	p.who.sort()
	holds := func(h gpu.Allocation) bool { return h.GPUInstance == instance || h.GPUInstance == "" }
	p.allocated = slices.ContainsFunc(iv.holders, holds)
	for _, h := range iv.liveHolders() {
		if holds(h) {
			p.holders = append(p.holders, h)
		}
	}
	return p
}

// place returns the instance a process is on, empty if the GPU has no such one.
func (iv *interval) place(id gpu.ProcessID) string {
	place := iv.places[id]
	if iv.mig == nil || !slices.ContainsFunc(iv.mig.Instances, func(i gpu.Instance) bool { return i.ID == place }) {
		return ""
	}
	return place
}

// alone reports whether the part has one owner and nobody else can be there.
func (p *part) alone() bool { return len(p.who.list) == 1 && p.listed }

// waits reports whether something is missing that may yet come: the owner of a
// process, or the kubelet's word where it decides.
func (p *part) waits() bool {
	decides := p.gap || !p.alone() && (len(p.who.list) == 0 || !p.signal || p.who.activity() == 0)
	return p.who.pending || decides && !p.holdersKnown
}

// method returns the method for an amount that was a whole owner's: a share by
// slices is not measured.
func (p *part) method() gpu.Method {
	if p.mig != nil {
		return gpu.Allocated
	}
	return gpu.Exclusive
}

// key returns the key of a container's account.
func (p *part) key(c gpu.Container) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: p.instance, Container: c}
}

// weigh returns the shares of the part's owners and how they were found.
func (p *part) weigh() ([]uint64, gpu.Method) {
	weights := make([]uint64, len(p.who.list))
	if p.signal && p.who.activity() > 0 {
		for i := range p.who.list {
			weights[i] = p.who.list[i].activity
		}
		return weights, gpu.Shared
	}
	held := false
	for i, o := range p.who.list {
		for _, h := range p.holders {
			if o.kind == gpu.OwnerContainer && h.Container == o.container {
				weights[i] += uint64(h.Replicas)
				held = true
			}
		}
	}
	if !held {
		for i := range weights {
			weights[i] = 1
		}
	}
	return weights, gpu.Allocated
}

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

func compareContainer(a, b gpu.Container) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.PodUID, b.PodUID),
		cmp.Compare(a.Container, b.Container),
	)
}
