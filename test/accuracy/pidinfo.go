package accuracy

import "github.com/gpuledger/gpuledger/internal/gpu"

// A pidInfoRule charges in the same way as DCGM's process statistics (dcgmGetPidInfo, field
// energyConsumed of dcgmPidSingleInfo_t). Each process gets the last minus the first sample of the
// whole GPU's energy counter in its lifetime. NVIDIA/DCGM v4.6.0, dcgmlib/dcgm_structs.h,
// dcgmlib/src/DcgmHostEngineHandler.cpp. Unlike the engine, it keeps all samples. The engine drops
// old samples, after which the value falls.
type pidInfoRule struct {
	last  gpu.Millijoules
	there map[gpu.ProcessID]bool
}

// read returns the energy since the last reading for each process that was present at both
// readings.
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
