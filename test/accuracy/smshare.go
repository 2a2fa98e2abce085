package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// An smShareRule charges as exporters do that multiply power by the share of SM
// utilisation, such as Kepler (sustainable-computing-io/kepler 13944a6,
// internal/device/gpu/nvidia/collector.go, internal/monitor/process.go): the board's
// power at the tick, less idle power, is divided among the processes listed by their
// share of the SM utilisation, equally without any, and taken for the time since the last
// tick, for those that were there at it. Idle power is the lowest that was seen with no
// process on the GPU, and 0 until that was seen. Kepler asks for the last ten seconds of
// samples and ticks every five; here the rule has the samples and the ticks of the ledger.
type smShareRule struct {
	idle  *float64 // W, nil until seen
	at    gpu.Instant
	there map[gpu.ProcessID]bool
}

// read takes in a reading and returns what it adds.
func (r *smShareRule) read(g *gpu.GPU) charges {
	watts := *g.Reading.Gauges[gpu.Power]
	if len(g.Processes) == 0 && (r.idle == nil || watts < *r.idle) {
		r.idle = &watts
	}
	if r.idle != nil {
		watts -= *r.idle
	}
	c, now := make(charges), make(map[gpu.ProcessID]bool)
	millijoules := watts * 1000 * g.Reading.At.Sub(r.at).Seconds()
	for i, share := range smShares(g.Processes) {
		p := g.Processes[i]
		now[p.ID] = true
		if r.there[p.ID] {
			c[ownerName(p.Owner)] += millijoules * share
		}
	}
	r.at, r.there = g.Reading.At, now
	return c
}

// smShares returns the share of each process, which are equal without a signal.
func smShares(processes []gpu.LiveProcess) []float64 {
	shares := make([]float64, len(processes))
	var total float64
	for i, p := range processes {
		if p.SM != nil {
			shares[i] = *p.SM
		}
		total += shares[i]
	}
	for i := range shares {
		if total > 0 {
			shares[i] /= total
		} else {
			shares[i] = 1 / float64(len(shares))
		}
	}
	return shares
}
