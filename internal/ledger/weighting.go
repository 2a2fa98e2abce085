package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A weighting contains shares and their weights, sorted by account key.
type weighting []weighted

type weighted struct {
	*share
	weight uint64
}

func (w weighting) weights() []uint64 {
	weights := make([]uint64, len(w))
	for i := range w {
		weights[i] = w[i].weight
	}
	return weights
}

func (w *weighting) add(s *share, weight uint64) {
	if i := slices.IndexFunc(*w, func(other weighted) bool { return compareShare(other.share, s) == 0 }); i >= 0 {
		(*w)[i].weight += weight
		return
	}
	*w = append(*w, weighted{s, weight})
}

func (w weighting) inOrder() weighting {
	slices.SortFunc(w, func(a, b weighted) int { return compareShare(a.share, b.share) })
	return w
}

// byActivity excludes the work of MPS servers for several owners.
func (p *part) byActivity() weighting {
	w := make(weighting, 0, len(p.shares))
	for i := range p.shares {
		s := &p.shares[i]
		w.add(s, uint64(s.activity-s.served))
	}
	return w
}

// byHolding weights the holders by replicas, whether or not they have a process. Without holders, it weights all owners
// with a process equally.
func (p *part) byHolding() weighting {
	w := make(weighting, 0, max(len(p.holders), len(p.shares)))
	for _, h := range p.holders {
		users := p.users(h)
		for _, i := range users {
			w.add(&p.shares[i], uint64(h.Replicas)*divisible/uint64(len(users)))
		}
		if len(users) == 0 {
			w.add(&share{owner: h.Owner}, uint64(h.Replicas)*divisible)
		}
	}
	if len(p.holders) > 0 {
		return w.inOrder()
	}
	for i := range p.shares {
		w.add(&p.shares[i], 1)
	}
	return w
}

// byService weights the clients of an MPS server by replicas. If they hold no replicas, it weights them equally.
func (p *part) byService() (w weighting) {
	for _, h := range p.holders {
		users := slices.DeleteFunc(p.users(h), func(i int) bool { return p.shares[i].served == 0 })
		for _, i := range users {
			w.add(&p.shares[i], uint64(h.Replicas)*divisible/uint64(len(users)))
		}
	}
	if len(w) > 0 {
		return w.inOrder()
	}
	for i := range p.shares {
		if s := &p.shares[i]; s.served > 0 {
			w.add(s, 1)
		}
	}
	return w
}

// divisible is the weight of one replica. It is divisible by every number from 1 to 12, so up to twelve owners can get
// equal parts.
const divisible = 27720

// users returns the indices of the shares whose owners hold the allocation. Containers that share a claim in a pod hold
// the GPU together. Therefore, if the container with the allocation has no process, the other containers of its group
// are the users.
func (p *part) users(h *gpu.Allocation) (users []int) {
	var beside []int
	for i := range p.shares {
		s := &p.shares[i]
		switch {
		case s.vanished || h.Owner.Group() != s.owner.Group():
		case h.Owner == s.owner || h.Owner.Part == "" || s.owner.Part == "":
			users = append(users, i)
		default:
			beside = append(beside, i)
		}
	}
	if len(users) == 0 {
		return beside
	}
	return users
}
