package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A scrapedRule charges in the same way as queries that multiply two values: the GPU's energy since the last scrape,
// and each process's current share of the SM utilisation. If there is no utilisation, all processes are charged
// equally. The time between scrapes is 15 seconds.
type scrapedRule struct {
	ticks int
	last  *gpu.Millijoules
}

const scrapeEvery = 15 // number of ticks

func (r *scrapedRule) read(g *gpu.GPU) charges {
	if r.ticks++; r.ticks%scrapeEvery != 1 {
		return nil
	}
	c := make(charges)
	if r.last != nil {
		energy := float64(*g.Reading.Energy - *r.last)
		for i, share := range smShares(g.Processes) {
			c[ownerName(g.Processes[i].Owner)] += energy * share
		}
		if len(g.Processes) == 0 {
			c["(idle)"] = energy
		}
	}
	r.last = g.Reading.Energy
	return c
}
