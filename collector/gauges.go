package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// gauges renders the live reading. A missing value is absent, and so are all gauges while the
// GPU does not respond.
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
