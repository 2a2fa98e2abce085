package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A part is one MIG instance, the free slices, or a whole GPU, in an interval.
type part struct {
	*interval
	// instance is empty for a whole GPU and for free slices.
	instance string
	// slices is the size of the instance, and active is its busy time.
	slices uint64
	active time.Duration
	// idle and busy are the idle and the busy energy of the part. method is the charging method for the busy energy of
	// a MIG instance. price sets these fields.
	idle, busy gpu.Millijoules
	method     gpu.Method
	// worked is set if work was sampled. estimated is set if an estimated idle power determined how the energy was
	// divided.
	worked, estimated bool
	// shares contains the owners with a process, sorted by account key. unresolved is set while the owner of any
	// process is not final.
	shares     []share
	unresolved bool
	// holders contains the live allocations of the part. allocated is set if there is any allocation, live or not.
	holders   []*gpu.Allocation
	allocated bool
	// holding contains the weights for energy that is charged to holders. recent contains the weights for work for
	// which no sample names a process.
	holding, recent weighting
}

func (iv *interval) resolve(owners Owners) {
	for i := range iv.processes {
		if p := &iv.processes[i]; p.Owner.Kind == gpu.OwnerPending {
			p.Process = p.OwnedBy(owners(p.ID))
		}
	}
}

// An owner that holds the whole GPU holds every instance.
func (iv *interval) part(instance string) part {
	p := part{interval: iv, instance: instance, holders: make([]*gpu.Allocation, 0, len(iv.holders))}
	p.allocated = slices.ContainsFunc(iv.holders, func(h gpu.Allocation) bool { return p.isOf(&h) })
	for h := range iv.liveHolders() {
		if p.isOf(h) {
			p.holders = append(p.holders, h)
		}
	}
	p.shares = make([]share, 0, min(len(iv.processes), usualOwners))
	for _, u := range iv.processes {
		if iv.place(u.ID) == instance {
			owner, vanished := p.payer(u.Process)
			p.addShare(u, owner, vanished)
		}
	}
	slices.SortFunc(p.shares, func(a, b share) int { return compareShare(&a, &b) })
	p.holders = p.owning()
	p.holding = p.byHolding()
	return p
}

// owning returns the allocations that can be charged. The kubelet does not report which DRA claims are for admin
// access. Therefore owning omits unused claims if several claims are on one device and processes use only some of them.
func (p *part) owning() []*gpu.Allocation {
	type claim struct{ scope, name string }
	of := func(h *gpu.Allocation) claim { return claim{h.Owner.Scope, h.Claim} }
	used := make(map[claim]bool)
	for _, h := range p.holders {
		if h.Claim == "" {
			return p.holders
		}
		used[of(h)] = used[of(h)] || len(p.users(h)) > 0
	}
	if !slices.Contains(slices.Collect(maps.Values(used)), true) {
		return p.holders
	}
	return slices.DeleteFunc(p.holders, func(h *gpu.Allocation) bool { return !used[of(h)] })
}

func (p *part) isOf(h *gpu.Allocation) bool {
	return h.GPUInstance == p.instance || h.GPUInstance == ""
}

// payer returns the owner that pays for a process. It treats a pending owner as unmapped, because the owner becomes
// unmapped at the timeout. If only the pod of a process is known, the payer is the container in this pod that holds the
// GPU. If a process ended before its files in /proc were read, the holders pay for it, and vanished is true.
func (p *part) payer(q *gpu.Process) (owner gpu.Owner, vanished bool) {
	owner = q.Owner
	switch {
	case owner.Kind == gpu.OwnerPending:
		p.unresolved = true
		return gpu.Owner{Kind: gpu.OwnerUnmapped}, false
	case owner.Kind == gpu.OwnerUnmapped && q.ID.Start == 0:
		return owner, len(p.holders) > 0
	case owner.Part == "":
		return p.holderOf(owner), false
	}
	return owner, false
}

// holderOf returns the only container of a group that holds the GPU. If no container or several containers hold the
// GPU, it returns the group.
func (p *part) holderOf(group gpu.Owner) gpu.Owner {
	found := group
	for _, h := range p.holders {
		switch {
		case h.Owner.Group() != group || h.Owner == found:
		case found != group:
			return group
		default:
			found = h.Owner
		}
	}
	return found
}

// sole returns the share of the only owner that holds the part or works on it. If no owner holds the part or works on
// it, sole returns the share of the only owner with a process.
//
// It returns nil if no owner or several owners qualify, or if the processes are unknown. It also returns nil if several
// owners have a process, and either the allocations or the activity are unknown.
func (p *part) sole() *share {
	if !p.listed {
		return nil
	}
	if len(p.shares) > 1 && !(p.holdersKnown && p.signal) {
		return nil
	}
	var sole *share
	only := func(s *share) bool {
		if sole != nil && sole != s {
			return false
		}
		sole = s
		return true
	}
	if len(p.holders) > 0 {
		for _, w := range p.holding {
			if !only(w.share) {
				return nil
			}
		}
	}
	for i := range p.shares {
		if s := &p.shares[i]; s.worked() && !only(s) {
			return nil
		}
	}
	switch {
	case sole == nil && len(p.shares) == 1:
		return &p.shares[0]
	case sole == nil || len(sole.processes) == 0: // the only owner is a holder without a process
		return nil
	}
	return sole
}

// isActive reports whether the whole interval counts as active time of an owner.
func (p *part) isActive(s *share) bool {
	return !p.gap && !p.timeless && !s.vanished && (s.active || s == p.sole() && p.worked)
}

func (p *part) contested() bool {
	for _, w := range p.holding {
		if len(p.shares) > 1 || len(p.shares) == 1 && w.share != &p.shares[0] {
			return true
		}
	}
	return false
}

// A part waits until its owners and allocations are known. If several owners may hold it or work on it, it also waits
// for the last samples of the interval.
func (p *part) waits() bool {
	unsampled := !p.gap && p.signal && p.sampled < p.to.At.Boot
	return p.unresolved || !p.holdersKnown || unsampled && p.contested()
}

func (p *part) allShares() (all []*share) {
	for i := range p.shares {
		all = append(all, &p.shares[i])
	}
	for _, w := range p.holding {
		if !slices.Contains(all, w.share) {
			all = append(all, w.share)
		}
	}
	return all
}

func (p *part) key(owner gpu.Owner) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: p.instance, Owner: owner}
}

// own is the busy time in which the owners' processes worked for themselves. served is the busy time in which MPS
// servers worked for several owners.
func (p *part) activity() (own, served time.Duration) {
	if !p.signal {
		return 0, 0
	}
	for i := range p.shares {
		s := &p.shares[i]
		own += s.activity - s.served
		served += s.served
	}
	return own, served
}
