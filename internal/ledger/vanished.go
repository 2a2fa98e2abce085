package ledger

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// shortLived contains the recent work of identified processes that were present at no more than one mark. A group with
// such processes probably also ran processes that ended before they were identified.
type shortLived struct {
	work  map[gpu.Owner]time.Duration // work by group
	began map[gpu.ProcessID]time.Duration
}

// shortLivedMemory is the number of intervals after which the weight of a group's work has fallen to about a third. It
// is large because only a few of the group's processes may be identified.
const shortLivedMemory = 64

func (s *shortLived) learn(parts []part) {
	for group, work := range s.work {
		s.work[group] = work - work/shortLivedMemory
	}
	maps.DeleteFunc(s.work, func(_ gpu.Owner, work time.Duration) bool { return work < time.Millisecond })
	began := make(map[gpu.ProcessID]time.Duration)
	for i := range parts {
		p := &parts[i]
		for j := range p.shares {
			owned := &p.shares[j]
			if !owned.owner.Kind.HasAccount() {
				continue
			}
			for _, q := range owned.processes {
				first, isNew := s.began[q.ID]
				switch before, after := p.from.has(q.ID), p.to.has(q.ID); {
				case !before && after:
					began[q.ID] = q.activity
				case !after && (isNew || !before):
					s.work[owned.owner.Group()] += first + q.activity
				}
			}
		}
	}
	s.began = began
}

// candidates returns the holders that may have run vanished processes, weighted by replicas. The allocations of all
// unknown pods count as one unmapped holder.
func (p *part) candidates() weighting {
	var w weighting
	for _, h := range p.holders {
		w.add(&share{owner: p.holderOf(h.Owner.Group())}, uint64(h.Replicas))
	}
	for i := range p.interval.holders {
		if h := &p.interval.holders[i]; p.isOf(h) && h.Owner.UID == "" && h.Replicas > 0 {
			w.add(&share{owner: gpu.Owner{Kind: gpu.OwnerUnmapped}}, uint64(h.Replicas))
		}
	}
	return w.inOrder()
}

// chargeVanished divides the energy of vanished processes among the holders, in proportion to the recent work of each
// holder's short-lived processes. Without such work, it divides the energy by replicas.
func (b *book) chargeVanished(p *part, energy gpu.Millijoules) {
	list := p.candidates()
	weights := make([]uint64, len(list))
	for i, c := range list {
		weights[i] = uint64(b.shortLived.work[c.owner.Group()])
	}
	if slices.Max(weights) == 0 {
		weights = list.weights()
	}
	for i, amount := range apportion(energy, weights) {
		if reason, ok := list[i].owner.Kind.Unattributed(); ok {
			b.Unattributed[reason] += amount
			continue
		}
		b.trail.vanished(p.key(list[i].owner), amount)
		b.account(p.key(list[i].owner), p.from.At.Wall).Energy[gpu.Allocated] += amount
	}
}
