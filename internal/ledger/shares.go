package ledger

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// shares are the weights by which parties pay an amount, in account order.
type shares []share

type share struct {
	*party
	weight uint64
}

func (s shares) weights() []uint64 {
	weights := make([]uint64, len(s))
	for i := range s {
		weights[i] = s[i].weight
	}
	return weights
}

func (s *shares) add(o *party, weight uint64) {
	if i := slices.IndexFunc(*s, func(t share) bool { return compareParty(t.party, o) == 0 }); i >= 0 {
		(*s)[i].weight += weight
		return
	}
	*s = append(*s, share{o, weight})
}

func (s shares) inOrder() shares {
	slices.SortFunc(s, func(a, b share) int { return compareParty(a.party, b.party) })
	return s
}

// byActivity weighs the parties by their own activity.
func (p *part) byActivity() shares {
	s := make(shares, 0, len(p.who.list))
	for i := range p.who.list {
		o := &p.who.list[i]
		s.add(o, uint64(o.activity-o.served))
	}
	return s
}

// byHolding weighs the holders by replicas, with or without a process. Without holders it
// weighs all present parties equally.
func (p *part) byHolding() shares {
	s := make(shares, 0, max(len(p.holders), len(p.who.list)))
	for _, h := range p.holders {
		users := p.users(h)
		for _, i := range users {
			s.add(&p.who.list[i], uint64(h.Replicas)*divisible/uint64(len(users)))
		}
		if len(users) == 0 {
			s.add(&party{owner: h.Owner}, uint64(h.Replicas)*divisible)
		}
	}
	if len(p.holders) > 0 {
		return s.inOrder()
	}
	for i := range p.who.list {
		s.add(&p.who.list[i], 1)
	}
	return s
}

// byService weighs the MPS server's clients by replicas, or equally if they hold none.
func (p *part) byService() (s shares) {
	for _, h := range p.holders {
		users := slices.DeleteFunc(p.users(h), func(i int) bool { return p.who.list[i].served == 0 })
		for _, i := range users {
			s.add(&p.who.list[i], uint64(h.Replicas)*divisible/uint64(len(users)))
		}
	}
	if len(s) > 0 {
		return s.inOrder()
	}
	for i := range p.who.list {
		if o := &p.who.list[i]; o.served > 0 {
			s.add(o, 1)
		}
	}
	return s
}

// divisible is the weight of one replica: up to twelve owners can have equal parts.
const divisible = 27720

// users returns the indices of the parties that hold an allocation. Containers of a pod that share
// a claim hold it together, and a group holds what its containers hold. If the holding container
// has no process, the other containers of its group are the users.
func (p *part) users(h *gpu.Allocation) (users []int) {
	var beside []int
	for i := range p.who.list {
		o := &p.who.list[i]
		switch {
		case o.vanished || h.Owner.Group() != o.owner.Group():
		case h.Owner == o.owner || h.Owner.Part == "" || o.owner.Part == "":
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
