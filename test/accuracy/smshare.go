package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// An smShareRule charges like exporters that multiply power by the share of SM utilisation, such as Kepler
// (sustainable-computing-io/kepler 13944a6, internal/device/gpu/nvidia/collector.go, internal/monitor/process.go).
//
// At each tick, the rule multiplies the board's power minus the idle power by the time since the last tick. It divides
// this energy among the processes that are listed at both ticks, in proportion to their SM utilisation. Without
// utilisation, it divides the energy equally. The idle power is the lowest power that was read without a process on the
// GPU. Before the first such reading, the idle power is 0.
//
// Kepler reads the samples of the last ten seconds every five seconds. This rule uses the samples and ticks of the
// ledger.
type smShareRule struct {
	idle  *float64 // in W; nil before the first reading without a process
	at    gpu.Instant
	there map[gpu.ProcessID]bool
}

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

// smShares returns equal shares if no process has SM utilisation.
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
