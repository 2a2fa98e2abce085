package accuracy

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type rule int

const (
	truth    rule = iota // the truth if the holders always share the floor
	userPays             // the difference from truth if the users pay the floor
	perfect              // gpuledger's rule with perfect samples
	charged              // the charges of the exporter
	previous             // the rule of gpuledger's first edition
	smShare              // share of SM utilisation, without idle power
	scraped              // share of SM utilisation at every scrape
	pidInfo              // DCGM's process statistics
	rules
)

// charges contains energy in millijoules by owner. An owner is the name of a pod or unit. A name in brackets is a
// reason for unattributed energy.
type charges map[string]float64

func (c charges) sum() float64 {
	var sum float64
	for _, e := range c {
		sum += e
	}
	return sum
}

func (c charges) scaled(total float64) charges {
	out, sum := make(charges, len(c)), c.sum()
	for owner, e := range c {
		out[owner] = total * e / sum
	}
	return out
}

// An entry contains the charges of one rule for a step of the simulation. at is the end of the step on the boot clock.
type entry struct {
	at time.Duration
	by rule
	charges
}

type journal []entry

func (j *journal) add(at time.Duration, by rule, c charges) { *j = append(*j, entry{at, by, c}) }

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

func ownerName(o gpu.Owner) string {
	if o.Kind == gpu.OwnerPod || o.Kind == gpu.OwnerUnit {
		return o.Name
	}
	return "(" + o.Kind.String() + ")"
}
