package ledger

import (
	"cmp"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A party is one owner in an interval, with its processes. All processes of one
// container are one party, as are those of the host, those that vanished without a name
// from a GPU that one pod holds exclusively, and the others without a name.
type party struct {
	kind gpu.OwnerKind
	// container is set for gpu.OwnerContainer, and for the processes of gpu.OwnerUnmapped
	// that the pod pays for.
	container gpu.Container
	activity  time.Duration
	served    time.Duration // the part of activity that is MPS servers' work
	active    bool          // seen to work
	processes []member
	// energy is what it owes for the interval, idle the part of that for idle power.
	energy gpu.ByMethod
	idle   gpu.Millijoules
}

// A member is one process of a party, and what it owes.
type member struct {
	*gpu.Process
	activity time.Duration
	energy   gpu.ByMethod
}

// parties are the owners present in an interval.
type parties struct {
	list []party
	// pending is set while some process has no final owner.
	pending bool
}

// add puts a process to its party.
func (ps *parties) add(p presence, kind gpu.OwnerKind, c gpu.Container) {
	i := slices.IndexFunc(ps.list, func(o party) bool { return o.kind == kind && o.container == c })
	if i < 0 {
		i = len(ps.list)
		ps.list = append(ps.list, party{kind: kind, container: c})
	}
	o := &ps.list[i]
	o.activity += p.activity
	o.served += p.served
	o.active = o.active || p.active
	o.processes = append(o.processes, member{Process: p.Process, activity: p.activity})
}

// sort orders the parties by account key, which is how ties are broken.
func (ps *parties) sort() {
	slices.SortFunc(ps.list, func(a, b party) int { return compareParty(&a, &b) })
}

func compareParty(a, b *party) int {
	return cmp.Or(cmp.Compare(a.kind, b.kind), compareContainer(a.container, b.container))
}

// worked reports whether a party was seen to work.
func (o *party) worked() bool { return o.active || o.activity > 0 }

// has reports whether a container is one of the parties.
func (ps *parties) has(c gpu.Container) bool {
	return slices.ContainsFunc(ps.list, func(o party) bool { return o.container == c })
}
