package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A part is the share of one MIG instance, or of a whole GPU, in an interval.
type part struct {
	*interval
	// instance is empty for a whole GPU and for free slices.
	instance string
	// slices is the size of the instance, active its busy time.
	slices uint64
	active time.Duration
	// idle and busy are its energy, set by price; method is the method of an instance's busy part.
	idle, busy gpu.Millijoules
	method     gpu.Method
	// worked is set if work was sampled, estimated if an estimated idle power divided its energy.
	worked, estimated bool
	who               parties
	// holders are its live allocations; allocated is set if it has any, live or not.
	holders   []*gpu.Allocation
	allocated bool
	// holding divides energy that is charged for holding.
	holding shares
}

// resolve looks up the owners of processes that had none yet.
func (iv *interval) resolve(owners Owners) {
	for i := range iv.processes {
		if p := &iv.processes[i]; p.Owner.Kind == gpu.OwnerPending {
			p.Process = p.OwnedBy(owners(p.ID))
		}
	}
}

// part returns the part of an instance. A holder of the whole GPU holds each of its instances.
func (iv *interval) part(instance string) part {
	p := part{interval: iv, instance: instance, holders: make([]*gpu.Allocation, 0, len(iv.holders))}
	p.allocated = slices.ContainsFunc(iv.holders, func(h gpu.Allocation) bool { return p.isOf(&h) })
	for h := range iv.liveHolders() {
		if p.isOf(h) {
			p.holders = append(p.holders, h)
		}
	}
	p.who.list = make([]party, 0, min(len(iv.processes), few))
	for _, q := range iv.processes {
		if iv.place(q.ID) == instance {
			owner, vanished := p.payer(q.Process)
			p.who.add(q, owner, vanished)
		}
	}
	p.who.sort()
	p.holders = p.owning()
	p.holding = p.byHolding()
	return p
}

// owning returns the allocations that are charged. The kubelet does not report admin access
// of DRA claims, so if some of several claims have a process, the others are ignored.
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

// payer returns the owner that pays for a process. A pending process counts as unmapped, as it does
// after the timeout. A process with a known group belongs to the container of the group that holds
// the GPU. The holders pay for a process that vanished before /proc was read.
func (p *part) payer(q *gpu.Process) (owner gpu.Owner, vanished bool) {
	owner = q.Owner
	switch {
	case owner.Kind == gpu.OwnerPending:
		p.who.pending = true
		return gpu.Owner{Kind: gpu.OwnerUnmapped}, false
	case owner.Kind == gpu.OwnerUnmapped && q.ID.Start == 0:
		return owner, len(p.holders) > 0
	case owner.Part == "":
		return p.holderOf(owner), false
	}
	return owner, false
}

// holderOf returns the container of a group that holds the GPU, or the group if none or several do.
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

// sole returns the party if exactly one holds or works, else nil. It requires a process list;
// if several parties are present, also the allocations and the activity signal.
func (p *part) sole() *party {
	if !p.listed {
		return nil
	}
	if len(p.who.list) > 1 && !(p.holdersKnown && p.signal) {
		return nil
	}
	var sole *party
	only := func(o *party) bool {
		if sole != nil && sole != o {
			return false
		}
		sole = o
		return true
	}
	if len(p.holders) > 0 {
		for _, s := range p.holding {
			if !only(s.party) {
				return nil
			}
		}
	}
	for i := range p.who.list {
		if o := &p.who.list[i]; o.worked() && !only(o) {
			return nil
		}
	}
	switch {
	case sole == nil && len(p.who.list) == 1:
		return &p.who.list[0]
	case sole == nil || len(sole.processes) == 0: // a holder without a process
		return nil
	}
	return sole
}

// isActive reports whether the whole interval counts as active time of a party.
func (p *part) isActive(o *party) bool {
	return !p.gap && !p.timeless && !o.vanished && (o.active || o == p.sole() && p.worked)
}

// contested reports whether several owners may hold or work.
func (p *part) contested() bool {
	for _, s := range p.holding {
		if len(p.who.list) > 1 || len(p.who.list) == 1 && s.party != &p.who.list[0] {
			return true
		}
	}
	return false
}

// waits reports whether the part must not be settled yet: an owner, the allocations, or
// the last samples of a contested interval are still missing.
func (p *part) waits() bool {
	unsampled := !p.gap && p.signal && p.sampled < p.to.At.Boot
	return p.who.pending || !p.holdersKnown || unsampled && p.contested()
}

// payers returns the present parties and the holders without a process.
func (p *part) payers() (all []*party) {
	for i := range p.who.list {
		all = append(all, &p.who.list[i])
	}
	for _, s := range p.holding {
		if !slices.Contains(all, s.party) {
			all = append(all, s.party)
		}
	}
	return all
}

func (p *part) key(owner gpu.Owner) gpu.AccountKey {
	return gpu.AccountKey{GPUInstance: p.instance, Owner: owner}
}

// activity returns the work of all owners, and the work of MPS servers for several of them.
func (p *part) activity() (own, served time.Duration) {
	if !p.signal {
		return 0, 0
	}
	for i := range p.who.list {
		o := &p.who.list[i]
		own += o.activity - o.served
		served += o.served
	}
	return own, served
}
