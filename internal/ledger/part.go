package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A part is what one MIG instance, or a whole GPU, has of an interval.
type part struct {
	*interval
	// instance is empty for a whole GPU, and for what is free of a divided one.
	instance string
	energy   gpu.Millijoules
	// method is how an amount is charged that is all of it.
	method gpu.Method
	// busy is set if it was seen to work, measured if that could be told.
	busy, measured bool
	who            parties
	// holders are its live allocations, allocated tells whether there are any,
	// live or not.
	holders   []*gpu.Allocation
	allocated bool
}

// resolve asks again for the owners of processes that had none yet.
func (iv *interval) resolve(owners Owners) {
	for i := range iv.processes {
		if p := &iv.processes[i]; p.Owner.Kind == gpu.OwnerPending {
			p.Process = p.OwnedBy(owners(p.ID))
		}
	}
}

// part gathers who is on an instance. Who holds the whole GPU holds each of its
// instances.
func (iv *interval) part(instance string, energy gpu.Millijoules, method gpu.Method) part {
	p := part{interval: iv, instance: instance, energy: energy, method: method}
	p.allocated = slices.ContainsFunc(iv.holders, func(h gpu.Allocation) bool { return p.isOf(&h) })
	for h := range iv.liveHolders() {
		if p.isOf(h) {
			p.holders = append(p.holders, h)
		}
	}
	for _, q := range iv.processes {
		if iv.place(q.ID) == instance {
			kind, c := p.payer(q.Process)
			p.who.add(q, kind, c)
		}
	}
	p.who.sort()
	return p
}

// isOf reports whether an allocation is of the part.
func (p *part) isOf(h *gpu.Allocation) bool {
	return h.GPUInstance == p.instance || h.GPUInstance == ""
}

// payer returns the party of a process. A pending process counts as unmapped, which is
// what it becomes if time runs out. One of which only the pod is known belongs to the
// container of the pod that holds the part, and one that vanished before /proc was read
// to the pod that holds the part exclusively.
func (p *part) payer(q *gpu.Process) (gpu.OwnerKind, gpu.Container) {
	c := q.Owner.Container
	switch kind := q.Owner.Kind; {
	case kind == gpu.OwnerPending:
		p.who.pending = true
		return gpu.OwnerUnmapped, gpu.Container{}
	case kind == gpu.OwnerContainer && c.Container == "":
		p.who.held = true
		return kind, p.holderOf(c)
	case kind == gpu.OwnerUnmapped && q.ID.Start == 0:
		p.who.held = true
		return kind, p.exclusiveHolder()
	case kind == gpu.OwnerContainer:
		return kind, c
	default:
		return kind, gpu.Container{}
	}
}

// holderOf returns the container of a pod that holds the part, with an empty name if
// none or several do.
func (p *part) holderOf(pod gpu.Container) gpu.Container {
	found := pod
	for _, h := range p.holders {
		switch {
		case h.Container.OfPod() != pod.OfPod() || h.Container == found:
		case found != pod:
			return pod
		default:
			found = h.Container
		}
	}
	return found
}

// exclusiveHolder returns the container that holds the part if its pod is the only one
// that may, else none. Allocations of pods that are known to be dead do not count.
func (p *part) exclusiveHolder() gpu.Container {
	var pod gpu.Container
	for i := range p.interval.holders {
		h := &p.interval.holders[i]
		switch {
		case !p.holdersKnown:
			return gpu.Container{}
		case !p.isOf(h) || !h.Live && h.Container.PodUID != "":
			continue
		case h.Sharing == gpu.SharingTimeSlicing || h.Container.PodUID == "":
			return gpu.Container{}
		case pod != (gpu.Container{}) && pod.OfPod() != h.Container.OfPod():
			return gpu.Container{}
		}
		pod = h.Container
	}
	pod.Container = ""
	return p.holderOf(pod)
}

// alone reports whether the part has one owner and nobody else can be there.
func (p *part) alone() bool { return len(p.who.list) == 1 && p.listed }

// waits reports whether something is missing that may yet come: the owner of a
// process, the samples of its end where several owners worked, or the kubelet's word
// where it decides.
func (p *part) waits() bool {
	several := len(p.who.list) > 0 && !p.alone()
	unsampled := several && !p.gap && p.signal && p.sampled < p.to.At.Boot
	activity, served := p.who.activity()
	decides := p.gap || len(p.who.list) == 0 || several && (!p.signal || activity == 0 || served > 0) || p.who.held
	return p.who.pending || unsampled || decides && !p.holdersKnown
}

// key returns the key of a container's account.
func (p *part) key(c gpu.Container) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: p.instance, Container: c}
}

// weigh returns the shares of the part's owners and how they were found: by activity,
// where the work of MPS servers is divided over their clients by what these hold, or by
// what all hold.
func (p *part) weigh() ([]uint64, gpu.Method) {
	activity, served := p.who.activity()
	if !p.signal || activity == 0 {
		return p.weighHolders(func(*party) bool { return true }), gpu.Allocated
	}
	weights := make([]uint64, len(p.who.list))
	if served == 0 {
		for i := range p.who.list {
			weights[i] = uint64(p.who.list[i].activity)
		}
		return weights, gpu.Shared
	}
	held := p.weighHolders(func(o *party) bool { return o.served > 0 })
	if served == activity {
		return held, gpu.Allocated
	}
	var all uint64
	for _, w := range held {
		all += w
	}
	for i := range p.who.list {
		o := &p.who.list[i]
		weights[i] = uint64(o.activity-o.served)*all + uint64(served)*held[i]
	}
	return weights, gpu.Shared
}

// weighHolders returns the shares of the owners that count by the replicas that they
// hold, equal ones if none holds any.
func (p *part) weighHolders(counts func(*party) bool) []uint64 {
	weights := make([]uint64, len(p.who.list))
	held := false
	for _, h := range p.holders {
		users := slices.DeleteFunc(p.users(h), func(i int) bool { return !counts(&p.who.list[i]) })
		for _, i := range users {
			weights[i] += uint64(h.Replicas) * divisible / uint64(len(users))
			held = true
		}
	}
	for i := range weights {
		if !held && counts(&p.who.list[i]) {
			weights[i] = 1
		}
	}
	return weights
}

// divisible is what one replica weighs: up to twelve containers can have equal parts.
const divisible = 27720

// users returns the positions of the parties that hold an allocation. Those of a claim
// that several containers of a pod have hold it together, and a pod holds what its
// containers do. Where the container that holds it is not there, its pod's others are
// its users.
func (p *part) users(h *gpu.Allocation) (users []int) {
	var beside []int
	for i, o := range p.who.list {
		switch {
		case h.Container.OfPod() != o.container.OfPod():
		case h.Container == o.container || h.Container.Container == "" || o.container.Container == "":
			users = append(users, i)
		default:
			beside = append(beside, i)
		}
	}
	if len(users) == 0 {
		return beside
	}
	return users
}
