package ledger

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A share contains one owner's processes in a part of an interval, their activity, and the energy charged to the owner.
type share struct {
	owner gpu.Owner
	// vanished is set if the processes ended before they were identified, and the GPU has holders. The holders then pay
	// for this share.
	vanished  bool
	activity  time.Duration
	served    time.Duration // part of activity in which MPS servers worked for several owners
	active    bool
	processes []processShare
	// energy is charged to the owner. idle is the idle energy in it.
	energy gpu.ByMethod
	idle   gpu.Millijoules
	// holding is the owner's weight if energy is divided by allocation. The trail records it to explain charges.
	holding uint64
}

type processShare struct {
	*gpu.Process
	activity time.Duration
	energy   gpu.ByMethod
}

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

// compareShare sorts the shares of vanished processes after all other shares.
func compareShare(a, b *share) int {
	switch {
	case a.vanished == b.vanished:
		return a.owner.Compare(b.owner)
	case a.vanished:
		return 1
	}
	return -1
}

func (p *part) hasShare(owner gpu.Owner) bool {
	return slices.ContainsFunc(p.shares, func(s share) bool { return s.owner == owner })
}

func (s *share) worked() bool { return s.active || s.activity > 0 }

// charge adds energy to the share and divides it over the processes, by activity or equally. If the owner has several
// processes, their method is shared or allocated, even if the energy of the share is exclusive.
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
