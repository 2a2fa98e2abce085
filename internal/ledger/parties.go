package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A party is one owner in an interval, with its processes. All processes of one
// container are one party, as are those of the host and those nobody could name.
type party struct {
	kind      gpu.OwnerKind
	container gpu.Container // set for gpu.OwnerContainer
	activity  time.Duration
	active    bool // seen to work
	processes []member
}

// A member is one process of a party.
type member struct {
	*gpu.Process
	activity time.Duration
}

// parties are the owners present in an interval.
type parties struct {
	list []party
	// pending is set while some process has no final owner.
	pending bool
}

// add puts a process to its party. A pending process counts as unmapped, which is
// what it becomes if time runs out.
func (ps *parties) add(p presence) {
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
	o.activity += p.activity
	o.active = o.active || p.active
	o.processes = append(o.processes, member{Process: p.Process, activity: p.activity})
}

// sort orders the parties by account key, which is how ties are broken.
func (ps *parties) sort() {
	slices.SortFunc(ps.list, func(a, b party) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), compareContainer(a.container, b.container))
	})
}

// activity returns the activity of all parties.
func (ps *parties) activity() time.Duration {
	var sum time.Duration
	for i := range ps.list {
		sum += ps.list[i].activity
	}
	return sum
}

// has reports whether a container is one of the parties.
func (ps *parties) has(c gpu.Container) bool {
	return slices.ContainsFunc(ps.list, func(o party) bool { return o.kind == gpu.OwnerContainer && o.container == c })
}
