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
	for _, q := range iv.processes {
		if iv.place(q.ID) == instance {
			p.who.add(q)
		}
	}
	p.who.sort()
	holds := func(h gpu.Allocation) bool { return h.GPUInstance == instance || h.GPUInstance == "" }
	p.allocated = slices.ContainsFunc(iv.holders, holds)
	for h := range iv.liveHolders() {
		if holds(*h) {
			p.holders = append(p.holders, h)
		}
	}
	return p
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
	for _, h := range p.holders {
		users := p.users(h)
		for _, i := range users {
			weights[i] += uint64(h.Replicas) * divisible / uint64(len(users))
			held = true
		}
	}
	if !held {
		for i := range weights {
			weights[i] = 1
		}
	}
	return weights, gpu.Allocated
}

// divisible is what one replica weighs: up to twelve containers can have equal parts.
const divisible = 27720

// users returns the positions of the parties that hold an allocation. Those of a claim
// that several containers of a pod have hold it together.
func (p *part) users(h *gpu.Allocation) (users []int) {
	for i, o := range p.who.list {
		together := h.Container.Container == "" && h.Container.OfPod() == o.container.OfPod()
		if h.Container == o.container || together {
			users = append(users, i)
		}
	}
	return users
}
