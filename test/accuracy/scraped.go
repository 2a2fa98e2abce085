package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A scrapedRule charges as queries do that multiply the GPU's energy since the last scrape
// by each process's share of the SM utilisation at this one, equally without any. Scrapes
// are 15 seconds apart.
type scrapedRule struct {
	ticks int
	last  *gpu.Millijoules
}

const scrapeEvery = 15 // ticks

// read takes in a reading and returns what it adds.
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
