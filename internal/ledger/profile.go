package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Profile describes a GPU or a MIG instance in the time between two samples. It contains the times for which the
// tensor cores and the memory were active.
type Profile struct {
	GPUInstance string // empty for a whole GPU
	gpu.Span
	Tensor, DRAM time.Duration
}

// soleUse records that only one owner has held or used a GPU or a MIG instance, and since when. It ends with the last
// settled interval.
type soleUse struct {
	gpu.AccountKey
	gpu.Span
}

// addProfiles stores new profiles until their time is settled. Each observation repeats the newest profile, so
// addProfiles skips profiles that it already stored.
func (b *book) addProfiles(profiles []Profile) {
	if !b.open() {
		return
	}
	for _, p := range profiles {
		if p.To <= b.profiled[p.GPUInstance] || p.Tensor < 0 || p.DRAM < 0 || max(p.Tensor, p.DRAM) > p.Len() {
			continue
		}
		if b.profiled == nil {
			b.profiled = make(map[string]time.Duration)
		}
		b.profiled[p.GPUInstance] = p.To
		b.profiles = append(b.profiles, p)
	}
}

// countProfiles adds each profile to an owner when the time of the profile is settled. This owner must have been
// alone on the GPU or instance for the whole time of the profile. If no owner was alone, countProfiles drops the
// profile. It does not divide the profile, because it does not know how much of the work each owner did.
func (b *book) countProfiles(iv *interval, parts []part) {
	for i := range parts {
		b.useAlone(&parts[i])
	}
	b.alone = slices.DeleteFunc(b.alone, func(u soleUse) bool { return u.To != iv.to.At.Boot })
	b.profiles = slices.DeleteFunc(b.profiles, func(p Profile) bool {
		if p.To > iv.to.At.Boot {
			return false
		}
		if i := b.aloneOn(p.GPUInstance); i >= 0 && b.alone[i].From <= p.From {
			a := b.account(b.alone[i].AccountKey, iv.from.At.Wall)
			a.Profiled = a.Profiled.Plus(gpu.Profiled{Time: p.Len(), Tensor: p.Tensor, DRAM: p.DRAM})
		}
		return true
	})
}

// useAlone extends the sole use of a part, or begins a new one.
func (b *book) useAlone(p *part) {
	owner, isAlone := p.onlyOwner()
	if !isAlone {
		return
	}
	use := soleUse{p.key(owner), p.span()}
	switch i := b.aloneOn(p.instance); {
	case i < 0:
		b.alone = append(b.alone, use)
	case b.alone[i].AccountKey == use.AccountKey && b.alone[i].To == use.From:
		b.alone[i].To = use.To
	default:
		b.alone[i] = use
	}
}

// onlyOwner returns the owner of [part.sole] if it has an account. If the part has no processes, onlyOwner returns
// the only holder. It returns false if there is no such owner, or if the processes or the allocations are unknown.
func (p *part) onlyOwner() (gpu.Owner, bool) {
	isFree := p.mig != nil && p.instance == ""
	if isFree || p.gap || !p.listed || p.outdated || !p.holdersKnown {
		return gpu.Owner{}, false
	}
	if len(p.shares) == 0 && len(p.holding) == 1 {
		return p.holding[0].owner, true
	}
	s := p.sole()
	if s == nil || s.vanished || !s.owner.Kind.HasAccount() {
		return gpu.Owner{}, false
	}
	return s.owner, true
}

// aloneOn returns the index of the sole use of a GPU or MIG instance, or -1 if there is no sole use.
func (b *book) aloneOn(instance string) int {
	return slices.IndexFunc(b.alone, func(u soleUse) bool { return u.GPUInstance == instance })
}

// forgetProfiles drops the profiled work of all accounts.
func (b *book) forgetProfiles() {
	b.copyOnWrite()
	for i := range b.Accounts {
		b.Accounts[i].Profiled = gpu.Profiled{}
	}
}
