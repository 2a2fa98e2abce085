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
	// instance is empty for a whole GPU, and for what is free of a divided one.
	instance string
	energy   gpu.Millijoules
	// whole is the method by which the energy of all of it is charged.
	whole gpu.Method
	// busy is set if it was seen to work, measured if that could be told.
	busy, measured bool
	who            parties
	// holders are its live allocations, allocated tells whether there are any,
	// live or not.
	holders   []gpu.Allocation
	allocated bool
}

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
func (iv *interval) part(instance string, energy gpu.Millijoules, whole gpu.Method) part {
	p := part{interval: iv, instance: instance, energy: energy, whole: whole}
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
// process, the samples of its end where several owners worked, or the kubelet's word
// where it decides.
func (p *part) waits() bool {
	several := len(p.who.list) > 0 && !p.alone()
	unsampled := several && !p.gap && p.signal && p.sampled < p.to.At.Boot
	decides := p.gap || len(p.who.list) == 0 || several && (!p.signal || p.who.activity() == 0)
	return p.who.pending || unsampled || decides && !p.holdersKnown
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
			weights[i] = uint64(p.who.list[i].activity)
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
