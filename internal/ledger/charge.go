package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The energy of a gap is charged to an owner only if the processes and allocations are equal at both ends of the gap.
func (b *book) charge(st *settlement, iv *interval, parts []part) {
	b.holdTime(iv, parts)
	b.gpuTime(iv, parts)
	b.shortLived.learn(parts)
	l := iv.load()
	b.chargeEnergy(st, iv, parts, l)
	b.countProfiles(iv, parts)
	b.learnIdlePower(iv, l)
	b.markAlive(iv, parts)
}

func (b *book) chargeEnergy(st *settlement, iv *interval, parts []part, l load) {
	b.trail.begin(iv, b.Unattributed)
	if iv.gap && !iv.unchanged(parts) {
		b.Unattributed[gpu.Gap] += iv.energy
	} else {
		b.chargeParts(st, iv, parts, l)
	}
	b.trail.end(b.Unattributed)
}

func (b *book) chargeParts(st *settlement, iv *interval, parts []part, l load) {
	atRest, floor := b.meter.atRest(l), b.idlePower(st)
	b.trail.price(iv, l, atRest, floor)
	iv.price(parts, l.idleEnergy(iv, atRest, floor.Power))
	estimated := !floor.Measured() && b.meter.dividesBy(l)
	for i := range parts {
		parts[i].recent = parts[i].byRecentWork(b.recent)
		parts[i].estimated = estimated && parts[i].isDivided()
		b.chargePart(st, &parts[i])
		if iv.mig == nil {
			b.recent.add(&parts[i])
		}
	}
}

func (b *book) learnIdlePower(iv *interval, l load) {
	switch {
	case iv.unmetered:
		return
	case iv.reset:
		l = load{} // the power is unknown after a reset
	}
	b.IdlePower = b.meter.learn(l, b.IdlePower)
	if l.known && iv.mig != nil { // several busy slices may draw more than their share of the limit
		l.busy = iv.mostBusy()
	}
	b.meter.minutes.add(l, b.kind.limit)
}

// chargePart charges the energy of a whole GPU or of a MIG instance to accounts. Idle energy is the idle power times
// the idle time. Busy energy is the rest. Each rule names the charging method, or the reason for unattributed energy,
// in parentheses:
//
//   - If only one owner holds the part or works on it, this owner pays for all energy (exclusive). The method
//     is allocated if the holders are only presumed because the kubelet does not respond, or if the list of
//     processes is outdated.
//   - If there are several owners, the idle energy is divided among the holders by replicas, even if a holder
//     has no process (allocated). Without holders, it is divided equally among the owners of contexts.
//   - If there are several owners, the busy energy is divided by activity (shared). If no sample names a
//     process, it is divided by recent activity (shared). Without activity, it is divided like the idle energy
//     (allocated).
//   - If there is no owner because the holders are stale or dead, or because a list is missing, the energy is
//     unattributed (unknown).
//   - If there is no owner for another reason, the energy is unattributed (idle).
//
// An owner that only has a context pays nothing if another owner works or holds the GPU. The energy of the host's
// processes and of processes without a known owner is unattributed (host, unmapped). The holders pay for processes that
// ended before they were identified (allocated); see [book.chargeVanished]. MIG instances have no exclusive energy,
// because the energy of the board is divided over the instances.
func (b *book) chargePart(st *settlement, p *part) {
	if s := p.sole(); s != nil {
		idle, busy := gpu.Exclusive, gpu.Exclusive
		switch {
		case p.mig != nil:
			idle, busy = gpu.Allocated, p.method
		case !p.holdersKnown || p.outdated:
			idle, busy = gpu.Allocated, gpu.Allocated
		}
		s.charge(p.idle, idle, false)
		s.charge(p.busy, busy, p.signal)
		s.idle = p.idle
	} else {
		b.bill(p.holding, p, p.idle, gpu.Allocated)
		for _, w := range p.holding {
			w.idle = w.energy.Sum() // only the idle part is charged so far
		}
		b.billWork(p)
	}
	b.trail.part(p)
	for _, s := range p.allShares() {
		b.trail.charge(p, s)
		b.chargeAccount(st, p, s)
	}
	b.countEstimated(p)
	b.countThrottled(p)
}

func (b *book) billWork(p *part) {
	own, served := p.activity()
	if own+served == 0 {
		if len(p.recent) > 0 {
			b.bill(p.recent, p, p.busy, gpu.Shared)
		} else {
			b.bill(p.holding, p, p.busy, gpu.Allocated)
		}
		return
	}
	amounts := apportion(p.busy, []uint64{uint64(own), uint64(served)})
	b.bill(p.byActivity(), p, amounts[0], gpu.Shared)
	if served > 0 {
		b.bill(p.byService(), p, amounts[1], gpu.Allocated)
	}
}

// bill leaves the energy unattributed if no owner can be charged.
func (b *book) bill(w weighting, p *part, amount gpu.Millijoules, method gpu.Method) {
	switch {
	case amount == 0:
	case len(w) > 0:
		for i, own := range apportion(amount, w.weights()) {
			w[i].charge(own, method, method == gpu.Shared)
		}
	case !p.holdersKnown || p.allocated || !p.listed:
		b.Unattributed[gpu.Unknown] += amount
	default:
		b.Unattributed[gpu.Idle] += amount
	}
}

// The energy of the host and of unmapped processes is unattributed. Every other owner with a context gets an account,
// even if its energy is 0.
func (b *book) chargeAccount(st *settlement, p *part, s *share) {
	if s.vanished {
		b.chargeVanished(p, s.energy.Sum())
		return
	}
	if reason, ok := s.owner.Kind.Unattributed(); ok {
		b.Unattributed[reason] += s.energy.Sum()
		return
	}
	a := b.account(p.key(s.owner), p.from.At.Wall)
	a.Energy = a.Energy.Plus(s.energy)
	a.Idle += s.idle
	p.addTimes(a, s)
	if more := min(len(s.processes)-len(a.Processes), st.room); more > 0 {
		a.Processes = slices.Grow(a.Processes, more) // grow only once, because there may be a thousand new processes
	}
	for _, q := range s.processes {
		to := st.openProcess(a, q.Process, p.from.At.Wall)
		to.Energy = to.Energy.Plus(q.energy)
		if q.Unit != (gpu.Unit{}) {
			u := unitAccount(a, q.Unit, p.from.At.Wall)
			u.Energy += q.energy.Sum()
			u.LastAlive = p.to.At.Boot
		}
	}
}

// gpuTime divides the time of the interval among the holders. In a gap, a holder gets time only if it already held the
// GPU or instance before the gap.
func (b *book) gpuTime(iv *interval, parts []part) {
	took := iv.to.At.Sub(iv.from.At)
	free := b.divideTime(iv, parts, took, func(p *part, owner gpu.Owner) time.Duration {
		if iv.gap && !p.groupHeldBefore(owner) {
			return 0
		}
		return took
	})
	if !iv.holdersKnown {
		b.unknown.Free += free
	}
}

// divideTime divides time among the holders: by slices among MIG instances, and by replicas within an instance. It
// charges the time of free slices to no holder. most returns the maximum time for a holder. divideTime returns the time
// in which no owner held the GPU.
func (b *book) divideTime(iv *interval, parts []part, all time.Duration, most func(*part, gpu.Owner) time.Duration) (free time.Duration) {
	weights := make([]uint64, len(parts))
	for i := range parts {
		weights[i] = parts[i].slices
	}
	times := apportion(all, weights)
	for i := range parts {
		p := &parts[i]
		if len(p.holders) == 0 {
			free += times[i]
			continue
		}
		for j, held := range apportion(times[i], p.holding.weights()) {
			owner := p.holding[j].owner
			if held = min(held, most(p, owner)); held > 0 {
				b.account(p.key(owner), iv.from.At.Wall).GPUTime += held
			}
		}
	}
	return free
}

func (p *part) groupHeldBefore(owner gpu.Owner) bool {
	for h := range liveAllocations(p.from.Holders) {
		if p.isOf(h) && h.Owner.Group() == owner.Group() {
			return true
		}
	}
	return false
}

func (iv *interval) heldBefore(key gpu.AccountKey) bool {
	return contains(liveAllocations(iv.from.Holders), key)
}

// unchanged reports whether the processes and the allocation are equal at both ends of a gap. It requires one
// allocation of the whole GPU that is not shared.
func (iv *interval) unchanged(parts []part) bool {
	before, after := slices.Collect(liveAllocations(iv.from.Holders)), slices.Collect(liveAllocations(iv.to.Holders))
	if iv.other || iv.mig != nil || len(iv.to.Processes) == 0 || !slices.Equal(iv.from.Processes, iv.to.Processes) ||
		len(before) != 1 || len(after) != 1 || before[0].Owner != after[0].Owner ||
		before[0].Sharing != gpu.SharingExclusive || after[0].Sharing != gpu.SharingExclusive {
		return false
	}
	sole := parts[0].sole()
	return sole != nil && len(parts[0].shares) == 1 && !sole.vanished && sole.owner.Group() == after[0].Owner.Group()
}
