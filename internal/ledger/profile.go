package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Profile contains the times for which the tensor cores and the memory of a GPU or MIG instance were active between
// two samples.
type Profile struct {
	GPUInstance string // empty for a whole GPU
	gpu.Span
	Tensor, DRAM time.Duration
}

// A soleUse is a time in which only one owner held or used a GPU or MIG instance. It ends with the last settled
// interval.
type soleUse struct {
	gpu.AccountKey
	gpu.Span
}

// addProfiles stores profiles until their time is settled. It skips stored profiles, because each observation repeats
// the newest profile.
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

// countProfiles adds each profile to the owner that was alone on the GPU or instance for the whole time of the profile.
// It drops a profile if no owner was alone, because the work of each owner is unknown.
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

// If the part has no processes, onlyOwner returns the only holder. Otherwise it returns the owner from [part.sole] if
// this owner can have an account.
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

// aloneOn returns the index in alone, or -1 if no owner was alone on the instance.
func (b *book) aloneOn(instance string) int {
	return slices.IndexFunc(b.alone, func(u soleUse) bool { return u.GPUInstance == instance })
}

func (b *book) forgetProfiles() {
	b.copyOnWrite()
	for i := range b.Accounts {
		b.Accounts[i].Profiled = gpu.Profiled{}
	}
}
