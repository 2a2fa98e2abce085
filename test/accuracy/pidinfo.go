package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A pidInfoRule charges like DCGM's process statistics (dcgmGetPidInfo, field energyConsumed of dcgmPidSingleInfo_t).
// It charges each process the difference between the last and the first sample of the GPU's energy counter in the
// process's lifetime. Source: NVIDIA/DCGM v4.6.0, dcgmlib/dcgm_structs.h and dcgmlib/src/DcgmHostEngineHandler.cpp.
//
// DCGM's host engine drops old samples, so energyConsumed can fall. The rule keeps all samples.
type pidInfoRule struct {
	last  gpu.Millijoules
	there map[gpu.ProcessID]bool
}

// read charges only processes that were also present at the last reading.
func (r *pidInfoRule) read(g *gpu.GPU) charges {
	c, now := make(charges), make(map[gpu.ProcessID]bool)
	for _, p := range g.Processes {
		now[p.ID] = true
		if r.there[p.ID] {
			c[ownerName(p.Owner)] += float64(*g.Reading.Energy - r.last)
		}
	}
	r.last, r.there = *g.Reading.Energy, now
	return c
}
