package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Profile is the profile of a GPU or a MIG instance between two samples: the time in which its tensor cores and its memory
// were active.
type Profile struct {
	GPUInstance string // empty for a whole GPU
	gpu.Span
	Tensor, DRAM time.Duration
}

// soleUse is the time since which only one owner has held or used a GPU or a MIG instance, up to the last settled interval.
type soleUse struct {
	gpu.AccountKey
	gpu.Span
}

// addProfiles keeps the new profiles until their time is settled. An observation repeats a profile until there is a newer
// one.
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

// countProfiles adds the profiles that are settled with an interval to the owner that was alone over their whole time. A
// profile is not divided: which owner did the work is unknown.
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

// useAlone extends the sole use of a part, or begins another.
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

// onlyOwner returns the owner if no other owner is known to hold a part or to work on it, or false if there is no such owner.
// Unlike [part.sole] it also returns a holder without a process.
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

// aloneOn returns the index of the sole use of a GPU or MIG instance, or -1 if there is none.
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
