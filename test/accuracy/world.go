package accuracy

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

const step = 100 * time.Millisecond

// A world uses the model to compute two values for each owner: the true energy, and the charge by gpuledger's rule with
// perfect samples.
type world struct {
	gpu       simnode.GPU
	perSecond float64
	last      simnode.GPUTruth
	// steps is the number of all steps. slack is the number of idle steps, which can be a fraction.
	steps, slack float64
	// These fields describe the steps in which several owners had a context: their number, the energy of the work, and
	// the rule's charges for this work.
	sharedSteps  int
	sharedEnergy float64
	shared       charges
}

func newWorld(sc simnode.Scenario) world {
	w := world{gpu: sc.GPUs[0], perSecond: sc.Sampling.PerSecond, shared: make(charges)}
	switch {
	case w.gpu.AMD != nil:
		w.perSecond = 1 / tick.Seconds()
	case w.perSecond == 0:
		w.perSecond = 7.2
	}
	return w
}

func (w *world) truth(row simnode.GPUTruth) charges {
	used := make(charges)
	for c, e := range row.Since(&w.last) {
		used[c.Name] = float64(e)
	}
	if idle := row.Idle - w.last.Idle; idle > 0 {
		used["(idle)"] = float64(idle)
	}
	host := func(g *simnode.GPUTruth) (sum float64) {
		for _, p := range g.Processes {
			if p.Name == "" {
				sum += float64(p.Energy)
			}
		}
		return sum
	}
	if more := host(&row) - host(&w.last); more > 0 {
		used["(host)"] = more
	}
	w.last = row
	return used
}

// workingFloor returns the difference between the two truths in a step. While any owner works, the working owners pay
// the floor in proportion to their work. At other times, the holders pay it.
func (w *world) workingFloor(on []simnode.Activity) charges {
	moved := make(charges)
	for i := range w.instances() {
		held, contexts, work := make(charges), make(charges), make(charges)
		for _, a := range on {
			switch {
			case a.Instance != i:
			case a.Holds:
				held[owner(a)]++
			default:
				contexts[owner(a)]++
				work[owner(a)] += float64(a.Percent) / 100
			}
		}
		if len(held) == 0 {
			held = contexts
		}
		if work.sum() == 0 {
			continue
		}
		floor := float64(w.gpu.Floor) * 1000 * step.Seconds() * w.part(i) / w.slices() * min(work.sum(), 1)
		for owner, e := range work.scaled(floor) {
			moved[owner] += e
		}
		for owner, e := range held.scaled(floor) {
			moved[owner] -= e
		}
	}
	return moved
}

func (w *world) instances() int {
	if w.gpu.MIG == nil {
		return 1
	}
	return len(w.gpu.MIG.Instances)
}

// perfect returns the charges of a step by gpuledger's rule. The floor in idle time is charged to the holders or,
// without holders, to all owners with a context. The rest is divided among all owners by busy time. On a MIG instance,
// both parts are proportional to its slices.
func (w *world) perfect(energy float64, on []simnode.Activity) charges {
	holding, contexts, work := make(charges), make(charges), make(charges)
	total, busy := w.slices(), 0.0
	for _, a := range on {
		part := w.part(a.Instance)
		switch {
		case a.Holds:
			holding[owner(a)] += part
		default:
			contexts[owner(a)] += part
			busy += float64(a.Percent) / 100 * part / total
			work[owner(a)] += float64(a.Percent) * part
		}
	}
	if w.gpu.MIG != nil && len(holding) > 0 {
		return w.perfectMIG(energy, on)
	}
	if len(holding) == 0 {
		holding = contexts
	}
	w.steps++
	w.slack += 1 - min(busy, 1)
	if len(holding) == 0 {
		return charges{"(idle)": energy}
	}
	idle := min(energy, float64(w.gpu.Floor)*1000*step.Seconds()*(1-min(busy, 1)))
	if work.sum() == 0 {
		return holding.scaled(energy)
	}
	bill := work.scaled(energy - idle)
	if len(contexts) > 1 {
		w.sharedSteps++
		w.sharedEnergy += energy - idle
		for owner, e := range bill {
			w.shared[owner] += e
		}
	}
	for owner, e := range holding.scaled(idle) {
		bill[owner] += e
	}
	return bill
}

// perfectMIG is [world.perfect] for MIG instances. One pod holds each instance.
func (w *world) perfectMIG(energy float64, on []simnode.Activity) charges {
	rest, work, busy := make(charges), make(charges), 0.0
	for _, a := range on {
		if !a.Holds {
			n := w.part(a.Instance)
			busy += float64(a.Percent) / 100 * n
			rest[owner(a)] += n * (1 - float64(a.Percent)/100)
			work[owner(a)] += n * float64(a.Percent)
		}
	}
	w.steps++
	w.slack += 1 - busy/w.slices()
	if busy == 0 {
		return rest.scaled(energy)
	}
	idle := min(energy, float64(w.gpu.Floor)*1000*step.Seconds()*(1-busy/w.slices()))
	bill := work.scaled(energy - idle)
	if rest.sum() == 0 {
		return work.scaled(energy)
	}
	for owner, e := range rest.scaled(idle) {
		bill[owner] += e
	}
	return bill
}

func owner(a simnode.Activity) string {
	if a.Name == "" {
		return "(host)"
	}
	return a.Name
}

func (w *world) part(instance int) float64 {
	if w.gpu.MIG == nil {
		return 1
	}
	return float64(w.gpu.MIG.Instances[instance].Slices)
}

func (w *world) slices() float64 {
	if w.gpu.MIG == nil {
		return 1
	}
	return float64(w.gpu.MIG.Slices)
}

// bound returns twice the standard error of the owners' energy if it is measured with random samples. For a share p and
// n samples, the standard error is √(p(1-p)/n). The bound is 0 on a GPU with MIG, and if no two owners had a context at
// the same time.
func (w *world) bound(owners []string) float64 {
	if w.gpu.MIG != nil || w.sharedSteps == 0 {
		return 0
	}
	var p float64
	for _, o := range owners {
		p += w.shared[o] / w.sharedEnergy
	}
	n := w.perSecond * step.Seconds() * float64(w.sharedSteps)
	return 2 * math.Sqrt(max(p*(1-p), 0)/n) * w.sharedEnergy
}
