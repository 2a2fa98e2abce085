package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A party is one owner in an interval, with its processes.
type party struct {
	owner gpu.Owner
	// vanished is set for processes that vanished before they were identified, on a GPU with
	// holders. They are a separate party. The holders pay for it.
	vanished  bool
	activity  time.Duration
	served    time.Duration // the part of activity that is the work of MPS servers
	active    bool          // was active
	processes []member
	// energy is the party's bill for the interval, idle its part for idle power.
	energy gpu.ByMethod
	idle   gpu.Millijoules
	// holding is its weight in the part's holding, for the trail.
	holding uint64
}

// A member is one process of a party, with its bill.
type member struct {
	*gpu.Process
	activity time.Duration
	energy   gpu.ByMethod
}

// parties are the owners present in an interval.
type parties struct {
	list []party
	// pending is set while a process has no final owner.
	pending bool
}

func (ps *parties) add(p presence, owner gpu.Owner, vanished bool) {
	i := slices.IndexFunc(ps.list, func(o party) bool { return o.owner == owner && o.vanished == vanished })
	if i < 0 {
		i = len(ps.list)
		ps.list = append(ps.list, party{owner: owner, vanished: vanished})
	}
	o := &ps.list[i]
	o.activity += p.activity
	o.served += p.served
	o.active = o.active || p.active
	o.processes = append(o.processes, member{Process: p.Process, activity: p.activity})
}

// sort orders the parties by account key, which breaks ties.
func (ps *parties) sort() {
	slices.SortFunc(ps.list, func(a, b party) int { return compareParty(&a, &b) })
}

// compareParty orders by owner, vanished processes last.
func compareParty(a, b *party) int {
	switch {
	case a.vanished == b.vanished:
		return a.owner.Compare(b.owner)
	case a.vanished:
		return 1
	}
	return -1
}

func (o *party) worked() bool { return o.active || o.activity > 0 }

func (ps *parties) has(c gpu.Owner) bool {
	return slices.ContainsFunc(ps.list, func(o party) bool { return o.owner == c })
}
