package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// charge gives the energy of an interval to accounts. A gap stays with a container
// only if nothing changed across it.
func (b *book) charge(st *settlement, iv *interval, parts []part) {
	b.holdTime(iv)
	if iv.gap && !iv.unchanged(parts) {
		b.Unattributed[gpu.Gap] += iv.energy
	} else {
		for i := range parts {
			b.chargePart(st, &parts[i])
		}
	}
	b.markAlive(iv, parts)
}

// chargePart gives the energy of a whole GPU, or of a MIG instance, to accounts, by
// the first row that fits:
//
//	one owner                            → that owner, in full       exclusive
//	several owners, with activity        → by their activity         shared
//	several owners, no signal            → holders by replicas,
//	                                       else all equally          allocated
//	no process, live holders             → them, by replicas         allocated
//	no process, holders stale or dead,
//	or processes not listed              → unattributed              unknown
//	nobody                               → unattributed              idle
//
// What falls to the host or to unmapped processes is unattributed, with that
// reason. What falls to processes that vanished from a GPU which one pod holds
// exclusively is that pod's, allocated. While the driver does not list processes nobody can be known to be alone,
// nor nobody there.
func (b *book) chargePart(st *settlement, p *part) {
	switch {
	case p.alone():
		b.pay(st, p, p.who.list[0], p.energy, p.method)
	case len(p.who.list) > 0:
		weights, method := p.weigh()
		for i, amount := range apportion(p.energy, weights) {
			b.pay(st, p, p.who.list[i], amount, method)
		}
	case len(p.holders) > 0:
		for i, amount := range apportion(p.energy, replicas(p.holders)) {
			b.credit(p, p.holders[i].Container, amount, gpu.Allocated)
		}
	case !p.holdersKnown || p.allocated || !p.listed:
		b.Unattributed[gpu.Unknown] += p.energy
	default:
		b.Unattributed[gpu.Idle] += p.energy
	}
}

// pay charges an amount to a party: to the container and inside it to its
// processes, to the container alone, or to nobody.
func (b *book) pay(st *settlement, p *part, o party, amount gpu.Millijoules, method gpu.Method) {
	switch o.kind {
	case gpu.OwnerHost:
		b.Unattributed[gpu.Host] += amount
		return
	case gpu.OwnerContainer:
	default:
		if o.container == (gpu.Container{}) {
			b.Unattributed[gpu.Unmapped] += amount
		} else {
			b.credit(p, o.container, amount, gpu.Allocated)
		}
		return
	}
	a := b.credit(p, o.container, amount, method)
	if !p.gap && (o.active || p.alone() && p.busy) {
		a.Active += p.to.At.Sub(p.from.At)
	}
	if more := min(len(o.processes)-len(a.Processes), st.room); more > 0 {
		a.Processes = slices.Grow(a.Processes, more) // at once: a thousand may come together
	}
	weights, method := o.inside(p.signal, method)
	for i, share := range apportion(amount, weights) {
		st.openProcess(a, o.processes[i].Process, p.from.At.Wall).Energy[method] += share
	}
}

// inside returns the shares of a party's processes, and how they were found: a
// part of a measured amount is not itself measured.
func (o *party) inside(signal bool, method gpu.Method) ([]uint64, gpu.Method) {
	weights := make([]uint64, len(o.processes))
	if len(weights) == 1 {
		weights[0] = 1
		return weights, method
	}
	if signal && o.activity > o.served {
		for i := range o.processes {
			weights[i] = uint64(o.processes[i].activity)
		}
		return weights, gpu.Shared
	}
	for i := range weights {
		weights[i] = 1
	}
	return weights, gpu.Allocated
}

// credit adds an amount to a container's account, which is opened if needed.
func (b *book) credit(p *part, c gpu.Container, amount gpu.Millijoules, method gpu.Method) *gpu.ContainerAccount {
	a := b.account(p.key(c), p.from.At.Wall)
	a.Energy[method] += amount
	if p.measured && !p.busy && !p.gap {
		a.Idle += amount
	}
	return a
}

// holdTime adds the interval to the time that each live holder held its device.
func (b *book) holdTime(iv *interval) {
	var counted []gpu.AccountKey
	for h := range iv.liveHolders() {
		key := keyOf(*h)
		if slices.Contains(counted, key) {
			continue
		}
		counted = append(counted, key)
		a := b.account(key, iv.from.At.Wall)
		if !iv.gap || iv.heldBefore(key) {
			a.Allocated += iv.to.At.Sub(iv.from.At)
		}
	}
}

func (iv *interval) heldBefore(key gpu.AccountKey) bool {
	for h := range live(iv.from.Holders) {
		if keyOf(*h) == key {
			return true
		}
	}
	return false
}

// unchanged reports whether a gap's energy may stay with a container: the same
// processes and the same unshared allocation of the whole GPU at both ends.
func (iv *interval) unchanged(parts []part) bool {
	before, after := slices.Collect(live(iv.from.Holders)), slices.Collect(live(iv.to.Holders))
	return iv.mig == nil &&
		len(iv.to.Processes) > 0 &&
		slices.Equal(iv.from.Processes, iv.to.Processes) &&
		len(before) == 1 && len(after) == 1 &&
		before[0].Sharing == gpu.SharingExclusive && after[0].Sharing == gpu.SharingExclusive &&
		before[0].Container == after[0].Container &&
		parts[0].alone() && parts[0].who.list[0].kind == gpu.OwnerContainer && parts[0].who.list[0].container.OfPod() == after[0].Container.OfPod()
}
