package ledger

import (
	"iter"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Unknown contains settled time in which the allocations were unknown. Once the allocations are known again, an owner
// with an allocation is credited with this time. The owner must also have held the device before, or must have had a
// process on the GPU.
type Unknown struct {
	Uncredited []Uncredited `json:"uncredited,omitempty"`
	// Free is the GPU time that is not credited to a holder.
	Free time.Duration `json:"free,omitempty"`
}

// Uncredited contains the time for which an owner may have held its device. Credited is the part of Time that is
// already in the owner's held time, but not yet in its GPU time.
type Uncredited struct {
	gpu.AccountKey
	Time     time.Duration `json:"time"`
	Credited time.Duration `json:"credited,omitempty"`
}

func (u Unknown) clone() Unknown {
	u.Uncredited = slices.Clone(u.Uncredited)
	return u
}

func (u *Unknown) negative() bool {
	return u.Free < 0 || slices.ContainsFunc(u.Uncredited, func(c Uncredited) bool { return c.Credited < 0 || c.Time < c.Credited })
}

func (u *Unknown) add(key gpu.AccountKey, took time.Duration) {
	if i := u.find(key); i >= 0 {
		u.Uncredited[i].Time += took
		return
	}
	u.Uncredited = append(u.Uncredited, Uncredited{AccountKey: key, Time: took})
}

func (u *Unknown) find(key gpu.AccountKey) int {
	return slices.IndexFunc(u.Uncredited, func(c Uncredited) bool { return c.AccountKey == key })
}

// take returns the owner's time that is not credited yet, and marks it as credited.
func (u *Unknown) take(key gpu.AccountKey) time.Duration {
	i := u.find(key)
	if i < 0 {
		return 0
	}
	c := &u.Uncredited[i]
	rest := c.Time - c.Credited
	c.Credited = c.Time
	return rest
}

// heldBy returns the time for which an owner's group may have held the GPU.
func (u *Unknown) heldBy(group gpu.Owner) (most time.Duration) {
	for _, c := range u.Uncredited {
		if c.Group() == group {
			most = max(most, c.Time)
		}
	}
	return most
}

// presume records known allocations. While the list of allocations is incomplete, it adds the last known allocations.
// An added allocation is live if its group is alive. If the live groups are unknown too, it is not live until
// [book.learnAlive] is called.
func (b *book) presume(o *Observation) {
	o.Allocations = inOrder(o.Allocations)
	if o.AllocationsKnown {
		b.holders = o.Allocations
		return
	}
	last := slices.DeleteFunc(slices.Clone(b.holders), func(h gpu.Allocation) bool {
		return slices.ContainsFunc(o.Allocations, func(known gpu.Allocation) bool { return keyOf(known) == keyOf(h) })
	})
	for i := range last {
		last[i].Live = o.Alive[last[i].Owner.UID]
	}
	o.Allocations = inOrder(slices.Concat(last, o.Allocations))
}

// After a restart, learnAlive applies the first list of live groups to earlier observations that have no such list. A
// holder that is alive now was also alive then.
func (b *book) learnAlive(alive map[string]bool) {
	if alive == nil {
		return
	}
	for i := range b.pending {
		iv := &b.pending[i]
		if i > 0 {
			iv.from.Holders = b.pending[i-1].to.Holders
		}
		iv.learnAlive(alive)
		if iv.late != nil {
			iv.late.learnAlive(alive)
		}
	}
}

func (iv *interval) learnAlive(alive map[string]bool) {
	if iv.holdersKnown || iv.alive != nil {
		return
	}
	iv.holders, iv.alive = slices.Clone(iv.holders), alive
	for i := range iv.holders {
		h := &iv.holders[i]
		h.Live = h.Live || alive[h.Owner.UID]
	}
	iv.to.Holders = iv.holders
}

// countUsers treats groups with a process on the GPU as alive if neither the allocations nor the live groups are known.
// Otherwise the active time of a holder could exceed its held time.
func (iv *interval) countUsers() {
	if iv.holdersKnown || iv.alive != nil {
		return
	}
	users := make(map[gpu.Owner]bool)
	for _, p := range iv.processes {
		users[p.Owner.Group()] = true
	}
	counts := func(h gpu.Allocation) bool { return !h.Live && users[h.Owner.Group()] }
	if !slices.ContainsFunc(iv.holders, counts) {
		return
	}
	iv.holders = slices.Clone(iv.holders)
	for i := range iv.holders {
		iv.holders[i].Live = iv.holders[i].Live || counts(iv.holders[i])
	}
	iv.to.Holders = iv.holders
}

// holdersBefore returns the allocations for an interval that ended before the allocations became known. Some owners may
// have ended or started since then.
func (iv *interval) holdersBefore(known []gpu.Allocation) []gpu.Allocation {
	holders := slices.DeleteFunc(slices.Clone(known), func(k gpu.Allocation) bool {
		return iv.alive != nil && !iv.alive[k.Owner.UID]
	})
	for h := range iv.liveHolders() {
		if !slices.ContainsFunc(known, func(k gpu.Allocation) bool { return keyOf(k) == keyOf(*h) }) {
			holders = append(holders, *h)
		}
	}
	return inOrder(holders)
}

// holdTime adds the interval to the held time of each live holder. It also adds earlier time that was not credited yet.
// It also credits an owner that held the device at the start of the interval and worked, even if the owner has ended.
//
// For two other kinds of owners, holdTime only records the time in unknown, because they may be credited later. Owners
// of the first kind have a process on the GPU, but their allocation may be newer than the list of allocations. Owners
// of the second kind are the last known holders while the allocations are unknown. After a gap, such a holder must also
// have held the device before the gap.
func (b *book) holdTime(iv *interval, parts []part) {
	took := iv.to.At.Sub(iv.from.At)
	var counted []gpu.AccountKey
	credit := func(key gpu.AccountKey) {
		if !slices.Contains(counted, key) {
			counted = append(counted, key)
			b.account(key, iv.from.At.Wall).Allocated += took
		}
	}
	for h := range iv.liveHolders() {
		key := keyOf(*h)
		b.account(key, iv.from.At.Wall)
		if !iv.gap || iv.heldBefore(key) || b.unknown.find(key) >= 0 {
			credit(key)
		}
		b.account(key, iv.from.At.Wall).Allocated += b.unknown.take(key)
	}
	for key := range present(parts, (*part).isActive) {
		if iv.heldBefore(key) {
			credit(key)
		}
	}
	if iv.holdersKnown {
		b.creditHolders(iv, parts)
	}
	later := func(key gpu.AccountKey) {
		if !slices.Contains(counted, key) {
			counted = append(counted, key)
			b.unknown.add(key, took)
		}
	}
	if !iv.holdersKnown {
		for h := range identified(iv.holders) {
			if key := keyOf(*h); !iv.gap || contains(identified(iv.from.Holders), key) || b.unknown.find(key) >= 0 {
				later(key)
			}
		}
	}
	for key := range present(parts, nil) {
		if !iv.gap || b.unknown.find(key) >= 0 {
			later(key)
		}
	}
}

// creditHolders divides the GPU time in which the allocations were unknown among the holders. A holder gets at most the
// time for which its group may have held the GPU. creditHolders drops the uncredited time of an owner that neither
// holds the GPU nor has a process on it.
func (b *book) creditHolders(iv *interval, parts []part) {
	users := slices.Collect(present(parts, nil))
	b.divideTime(iv, parts, b.unknown.Free, func(_ *part, owner gpu.Owner) time.Duration {
		return b.unknown.heldBy(owner.Group())
	})
	b.unknown.Free = 0
	b.unknown.Uncredited = slices.DeleteFunc(b.unknown.Uncredited, func(c Uncredited) bool {
		left := iv.listed && !iv.outdated && !slices.Contains(users, c.AccountKey)
		return left || contains(iv.liveHolders(), c.AccountKey)
	})
}

// present returns the accounts of the owners with a process. It skips shares for which counts returns false. counts may
// be nil.
func present(parts []part, counts func(*part, *share) bool) iter.Seq[gpu.AccountKey] {
	return func(yield func(gpu.AccountKey) bool) {
		for i := range parts {
			p := &parts[i]
			for j := range p.shares {
				s := &p.shares[j]
				if s.owner.Kind.HasAccount() && !s.vanished && (counts == nil || counts(p, s)) && !yield(p.key(s.owner)) {
					return
				}
			}
		}
	}
}
