package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A previousRule charges like the first edition of gpuledger, from the same readings. If only one owner has a context,
// the owner pays for the energy between two readings. If several owners have contexts, the energy is divided by
// activity. Without activity, it is divided among the holders of replicas. If no owner has a context, the holders pay.
// The rule supports neither MIG nor gaps.
type previousRule struct {
	last  *gpu.Millijoules
	there map[string]bool
}

func (r *previousRule) read(g *gpu.GPU) charges {
	now, activity, held := make(map[string]bool), make(charges), make(charges)
	for _, p := range g.Processes {
		who := ownerName(p.Owner)
		now[who] = true
		if p.SM != nil && *p.SM > 0 {
			activity[who] += *p.SM
		}
	}
	for _, h := range g.Holders {
		if h.Replicas > 0 {
			held[h.Name] += float64(h.Replicas)
		}
	}
	present := make(charges)
	for _, owners := range []map[string]bool{r.there, now} {
		for who := range owners {
			present[who] = 1
		}
	}
	heldHere := make(charges)
	for who := range present {
		if held[who] > 0 {
			heldHere[who] = held[who]
		}
	}
	var c charges
	if r.last != nil {
		energy := float64(*g.Reading.Energy - *r.last)
		switch {
		case len(present) == 0 && len(held) > 0:
			c = held.scaled(energy)
		case len(present) == 0:
			c = charges{"(idle)": energy}
		case len(present) > 1 && len(activity) > 0:
			c = activity.scaled(energy)
		case len(heldHere) > 0 && len(present) > 1:
			c = heldHere.scaled(energy)
		default:
			c = present.scaled(energy)
		}
	}
	r.last, r.there = g.Reading.Energy, now
	return c
}
