package accuracy

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A rule is a way to say whose a GPU's energy is.
type rule int

const (
	truth    rule = iota // the model's
	perfect              // gpuledger's, if it saw every moment
	charged              // gpuledger's, as it did charge
	previous             // gpuledger's first edition's
	smShare              // share of SM utilisation, without idle power
	scraped              // share of SM utilisation at every scrape
	pidInfo              // DCGM's process statistics
	rules
)

// charges are amounts of energy by owner, in millijoules: a pod's name, or the reason
// in brackets why it is nobody's.
type charges map[string]float64

func (c charges) sum() float64 {
	var sum float64
	for _, e := range c {
		sum += e
	}
	return sum
}

// scaled returns amounts in the same proportions that sum to a total.
func (c charges) scaled(total float64) charges {
	out, sum := make(charges, len(c)), c.sum()
	for owner, e := range c {
		out[owner] = total * e / sum
	}
	return out
}

// An entry says who bears the energy of some time up to a moment on the boot clock.
type entry struct {
	at time.Duration
	by rule
	charges
}

// A journal is what the rules said, moment by moment.
type journal []entry

func (j *journal) add(at time.Duration, by rule, c charges) { *j = append(*j, entry{at, by, c}) }

// between sums what the rules said of the time between two moments.
func (j journal) between(from, to time.Duration) [rules]charges {
	var sums [rules]charges
	for r := range sums {
		sums[r] = make(charges)
	}
	for _, e := range j {
		if e.at <= from || e.at > to {
			continue
		}
		for owner, energy := range e.charges {
			sums[e.by][owner] += energy
		}
	}
	return sums
}

// ownerName names an owner.
func ownerName(o gpu.Owner) string {
	if o.Kind == gpu.OwnerPod {
		return o.Name
	}
	return "(" + o.Kind.String() + ")"
}
