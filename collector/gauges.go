package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// gauges renders the values in the last reading, such as power and temperature. A gauge without a value is absent.
// While the GPU does not respond, all gauges are absent.
func (p *page) gauges(g *gpu.GPU, uuid *labelSet) {
	r := g.Reading
	if !p.opts.Gauges || !g.Present || r == nil {
		return
	}
	for i, v := range r.Gauges {
		optional(p, firstGauge+metricID(i), v, uuid)
	}
	if r.SharesMemory {
		p.info(memorySource, p.with(uuid, "source", "system"))
	}
}
