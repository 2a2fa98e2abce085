package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A share describes one owner's part of an interval. It contains the processes of the owner, the activity of these
// processes, and the energy that is charged to the owner.
type share struct {
	owner gpu.Owner
	// vanished is set if the processes of the share ended before they were identified, and the GPU has holders. This
	// share is separate from the shares of owners. Its energy is charged to the holders.
	vanished  bool
	activity  time.Duration
	served    time.Duration // part of activity in which MPS servers worked for several owners
	active    bool          // set if the owner was active
	processes []processShare
	// energy is the charged energy. idle is the part of this energy that is idle energy.
	energy gpu.ByMethod
	idle   gpu.Millijoules
	// holding is the weight of the owner if the energy of the part is divided by allocation. The trail records this
	// weight.
	holding uint64
}

// A processShare is the part of a share that belongs to one process.
type processShare struct {
	*gpu.Process
	activity time.Duration
	energy   gpu.ByMethod
}

// addShare adds the usage of a process to the share of its owner.
func (p *part) addShare(u usage, owner gpu.Owner, vanished bool) {
	i := slices.IndexFunc(p.shares, func(s share) bool { return s.owner == owner && s.vanished == vanished })
	if i < 0 {
		i = len(p.shares)
		p.shares = append(p.shares, share{owner: owner, vanished: vanished})
	}
	s := &p.shares[i]
	s.activity += u.activity
	s.served += u.served
	s.active = s.active || u.active
	s.processes = append(s.processes, processShare{Process: u.Process, activity: u.activity})
}

// compareShare orders shares by owner. Shares of vanished processes are sorted after all others.
func compareShare(a, b *share) int {
	switch {
	case a.vanished == b.vanished:
		return a.owner.Compare(b.owner)
	case a.vanished:
		return 1
	}
	return -1
}

// hasShare reports whether an owner has a share of the part.
func (p *part) hasShare(owner gpu.Owner) bool {
	return slices.ContainsFunc(p.shares, func(s share) bool { return s.owner == owner })
}

func (s *share) worked() bool { return s.active || s.activity > 0 }

// charge adds an amount to the share and divides the amount over the processes, by activity or equally. If there
// are several processes, the amount of each process has the method shared or allocated, even if the amount of the
// share is exclusive.
func (s *share) charge(amount gpu.Millijoules, method gpu.Method, byActivity bool) {
	s.energy[method] += amount
	switch len(s.processes) {
	case 0:
		return
	case 1:
		s.processes[0].energy[method] += amount
		return
	}
	weights := make([]uint64, len(s.processes))
	byActivity = byActivity && s.activity > s.served
	for i := range s.processes {
		weights[i] = 1
		if byActivity {
			weights[i] = uint64(s.processes[i].activity)
		}
	}
	method = gpu.Allocated
	if byActivity {
		method = gpu.Shared
	}
	for i, charged := range apportion(amount, weights) {
		s.processes[i].energy[method] += charged
	}
}
