package accuracy

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// step is the time by which the model moves.
const step = 100 * time.Millisecond

// samplesPerStep is how often the driver looks in one step: 72 times in 10 s.
const samplesPerStep = 7.2 * float64(step) / float64(time.Second)

// A world follows the model: who really uses the GPU's energy, and who would bear it
// by gpuledger's rule if nothing escaped it.
type world struct {
	gpu  simnode.GPU
	last simnode.GPUTruth
	// What follows is about the steps in which several owners were there and one of
	// them at least was busy: their number, energy, and who bears it by the rule.
	sharedSteps  int
	sharedEnergy float64
	shared       charges
}

func newWorld(g simnode.GPU) world { return world{gpu: g, shared: make(charges)} }

// truth returns what everybody used in the step that ends with a row.
func (w *world) truth(row simnode.GPUTruth) charges {
	used := make(charges)
	for c, e := range row.Since(&w.last) {
		used[c.Pod] = float64(e)
	}
	if idle := row.Idle - w.last.Idle; idle > 0 {
		used["(idle)"] = float64(idle)
	}
	w.last = row
	return used
}

// perfect returns who bears the energy of a step by gpuledger's rule: all by their
// busy time, on a MIG instance times its slices; while nobody is busy the holders, here
// one replica or instance each; else nobody.
func (w *world) perfect(energy float64, on []simnode.Activity) charges {
	if len(on) == 0 {
		return charges{"(idle)": energy}
	}
	weights := make(charges)
	for _, a := range on {
		weights[a.Pod] += float64(a.Percent * w.slices(a.Instance))
	}
	busy := weights.sum()
	for _, a := range on {
		if busy == 0 {
			weights[a.Pod] = float64(w.slices(a.Instance))
		}
	}
	total := weights.sum()
	for owner, weight := range weights {
		weights[owner] = energy * weight / total
	}
	if len(weights) > 1 && busy > 0 {
		w.sharedSteps++
		w.sharedEnergy += energy
		for owner, e := range weights {
			w.shared[owner] += e
		}
	}
	return weights
}

func (w *world) slices(instance int) int {
	if w.gpu.MIG == nil {
		return 1
	}
	return w.gpu.MIG.Instances[instance].Slices
}

// bound returns two standard errors of what random samples say of some owners' energy:
// of a share p over n samples the standard error is √(p(1-p)/n). It is 0 where the
// driver takes no samples.
func (w *world) bound(owners []string) float64 {
	if w.gpu.MIG != nil || w.sharedSteps == 0 {
		return 0
	}
	var p float64
	for _, o := range owners {
		p += w.shared[o] / w.sharedEnergy
	}
	n := samplesPerStep * float64(w.sharedSteps)
	return 2 * math.Sqrt(p*(1-p)/n) * w.sharedEnergy
}
