package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A scrapedRule charges like a query that multiplies the GPU's energy since the last scrape by each process's current
// share of the SM utilisation. Without utilisation, it charges all processes equally. The scrape interval is 15
// seconds.
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
