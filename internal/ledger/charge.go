package ledger

import (
	"cmp"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A party is one owner in an interval, with its processes. All processes of one
// container are one party, as are those of the host and those nobody could name.
type party struct {
	kind      gpu.OwnerKind
	container gpu.Container // set for gpu.OwnerContainer
	activity  uint64
	processes []member
}

// A member is one process of a party.
type member struct {
	gpu.Process
	activity uint64
}

// parties are the owners present in an interval.
type parties struct {
	list []party
	// pending is set while some process has no final owner.
	pending bool
}

// add puts a process to its party. A pending process counts as unmapped, which is
// what it becomes if time runs out.
func (ps *parties) add(p gpu.Process, activity uint64) {
	kind := p.Owner.Kind
	if kind == gpu.OwnerPending {
		ps.pending = true
		kind = gpu.OwnerUnmapped
	}
	var c gpu.Container
	if kind == gpu.OwnerContainer {
		c = p.Owner.Container
	}
	i := slices.IndexFunc(ps.list, func(o party) bool { return o.kind == kind && o.container == c })
	if i < 0 {
		i = len(ps.list)
		ps.list = append(ps.list, party{kind: kind, container: c})
	}
	o := &ps.list[i]
	o.activity += activity
	o.processes = append(o.processes, member{Process: p, activity: activity})
}

// sort orders the parties by account key, which is how ties are broken.
func (ps *parties) sort() {
	slices.SortFunc(ps.list, func(a, b party) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), compareContainer(a.container, b.container))
	})
}

// activity returns the activity of all parties.
func (ps *parties) activity() uint64 {
	var sum uint64
	for i := range ps.list {
		sum += ps.list[i].activity
	}
	return sum
}

// has reports whether a container is one of the parties.
func (ps *parties) has(c gpu.Container) bool {
	return slices.ContainsFunc(ps.list, func(o party) bool { return o.kind == gpu.OwnerContainer && o.container == c })
}

// needHolders reports whether allocations decide the interval's fate.
func (ps *parties) needHolders(iv *interval) bool {
	alone := len(ps.list) == 1 && iv.listed
	return iv.gap || !alone && (len(ps.list) == 0 || !iv.signal || ps.activity() == 0)
}

// charge gives the energy of an interval to accounts, by the first row that fits:
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
// reason. A gap stays with a container only if nothing changed across it. While the
// driver does not list processes nobody can be known to be alone, nor nobody there.
func (b *book) charge(st *settlement, iv *interval, who parties) {
	b.holdTime(iv)
	switch holders := iv.liveHolders(); {
	case iv.gap && !iv.unchanged(who):
		b.Unattributed[gpu.Gap] += iv.energy
	case len(who.list) == 1 && iv.listed:
		b.pay(st, iv, who.list[0], iv.energy, gpu.Exclusive)
	case len(who.list) > 0:
		weights, method := iv.weigh(who, holders)
		for i, amount := range apportion(iv.energy, weights) {
			b.pay(st, iv, who.list[i], amount, method)
		}
	case len(holders) > 0:
		for i, amount := range apportion(iv.energy, replicas(holders)) {
			b.credit(iv, gpu.AccountKey{Container: holders[i].Container}, amount, gpu.Allocated)
		}
	case !iv.holdersKnown || len(iv.holders) > 0 || !iv.listed:
		b.Unattributed[gpu.Unknown] += iv.energy
	default:
		b.Unattributed[gpu.Idle] += iv.energy
	}
	b.markAlive(iv, who)
}

// weigh returns the shares of several owners and how they were found.
func (iv *interval) weigh(who parties, holders []gpu.Allocation) ([]uint64, gpu.Method) {
	weights := make([]uint64, len(who.list))
	if iv.signal && who.activity() > 0 {
		for i := range who.list {
			weights[i] = who.list[i].activity
		}
		return weights, gpu.Shared
	}
	held := false
	for i, o := range who.list {
		for _, h := range holders {
			if o.kind == gpu.OwnerContainer && h.Container == o.container {
				weights[i] += uint64(h.Replicas)
				held = true
			}
		}
	}
	if !held {
		for i := range weights {
			weights[i] = 1
		}
	}
	return weights, gpu.Allocated
}

// pay charges an amount to a party: to the container and inside it to its
// processes, or to nobody.
func (b *book) pay(st *settlement, iv *interval, o party, amount gpu.Millijoules, method gpu.Method) {
	switch o.kind {
	case gpu.OwnerHost:
		b.Unattributed[gpu.Host] += amount
		return
	case gpu.OwnerContainer:
	default:
		b.Unattributed[gpu.Unmapped] += amount
		return
	}
	a := b.credit(iv, gpu.AccountKey{Container: o.container}, amount, method)
	if !iv.gap && (o.activity > 0 || method == gpu.Exclusive && iv.busy) {
		a.Active += iv.to.At.Sub(iv.from.At)
	}
	weights, method := o.inside(iv.signal, method)
	for i, part := range apportion(amount, weights) {
		st.openProcess(a, o.processes[i].Process, iv.from.At.Wall).Energy[method] += part
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
	if signal && o.activity > 0 {
		for i := range o.processes {
			weights[i] = o.processes[i].activity
		}
		return weights, gpu.Shared
	}
	for i := range weights {
		weights[i] = 1
	}
	return weights, gpu.Allocated
}

// credit adds an amount to a container's account, which is opened if needed.
func (b *book) credit(iv *interval, key gpu.AccountKey, amount gpu.Millijoules, method gpu.Method) *gpu.ContainerAccount {
	a := b.account(key, iv.from.At.Wall)
	a.Energy[method] += amount
	if iv.measured && !iv.busy && !iv.gap {
		a.Idle += amount
	}
	return a
}

// holdTime adds the interval to the time that each live holder held the GPU.
func (b *book) holdTime(iv *interval) {
	var counted []gpu.Container
	for _, h := range iv.liveHolders() {
		if slices.Contains(counted, h.Container) {
			continue
		}
		counted = append(counted, h.Container)
		a := b.account(gpu.AccountKey{Container: h.Container}, iv.from.At.Wall)
		if !iv.gap || iv.heldThroughout(h.Container) {
			a.Allocated += iv.to.At.Sub(iv.from.At)
		}
	}
}

// liveHolders are the allocations that count: fresh, of a whole GPU, and of a pod
// known by its UID to be alive.
func (iv *interval) liveHolders() []gpu.Allocation {
	if !iv.holdersKnown {
		return nil
	}
	return live(iv.holders)
}

func live(allocations []gpu.Allocation) []gpu.Allocation {
	var out []gpu.Allocation
	for _, h := range allocations {
		if h.Live && h.Container.PodUID != "" && h.Replicas > 0 {
			out = append(out, h)
		}
	}
	slices.SortFunc(out, func(a, b gpu.Allocation) int { return compareContainer(a.Container, b.Container) })
	return out
}

func (iv *interval) heldThroughout(c gpu.Container) bool {
	return slices.ContainsFunc(live(iv.from.Holders), func(h gpu.Allocation) bool { return h.Container == c })
}

// unchanged reports whether a gap's energy may stay with a container: the same
// processes and the same unshared allocation at both ends.
func (iv *interval) unchanged(who parties) bool {
	before, after := live(iv.from.Holders), live(iv.to.Holders)
	return len(iv.to.Processes) > 0 &&
		slices.Equal(iv.from.Processes, iv.to.Processes) &&
		len(before) == 1 && len(after) == 1 &&
		before[0].Sharing == gpu.SharingExclusive && after[0].Sharing == gpu.SharingExclusive &&
		before[0].Container == after[0].Container &&
		len(who.list) == 1 && who.list[0].kind == gpu.OwnerContainer &&
		podOf(who.list[0].container) == podOf(after[0].Container)
}

func replicas(holders []gpu.Allocation) []uint64 {
	weights := make([]uint64, len(holders))
	for i, h := range holders {
		weights[i] = uint64(h.Replicas)
	}
	return weights
}

func compareContainer(a, b gpu.Container) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Pod, b.Pod),
		cmp.Compare(a.PodUID, b.PodUID),
		cmp.Compare(a.Container, b.Container),
	)
}
