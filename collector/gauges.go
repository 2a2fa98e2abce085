package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// gauges renders the live reading. What could not be read is absent, and so is
// everything while the GPU does not answer: a gauge never stands still.
func (p *page) gauges(g *gpu.GPU, uuid *labelSet) {
	r := g.Reading
	if !p.opts.Gauges || !g.Present || r == nil {
		return
	}
	optional(p, gpuPower, r.Power, uuid)
	optional(p, gpuTemperature, r.Temperature, uuid)
	optional(p, gpuUtilization, r.Utilization, uuid)
	optional(p, gpuMemoryUsed, r.MemoryUsed, uuid)
	optional(p, gpuMemoryTotal, r.MemoryTotal, uuid)
	optional(p, gpuSMClock, r.SMClock, uuid)
	optional(p, gpuMemoryClock, r.MemoryClock, uuid)
}
