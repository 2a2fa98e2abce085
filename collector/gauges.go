package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// gauges renders the live reading. What could not be read is absent, and so is
// everything while the GPU does not answer: a gauge never stands still.
func (p *page) gauges(g *gpu.GPU, uuid *labelSet) {
	r := g.Reading
	if !p.opts.Gauges || !g.Present || r == nil {
		return
	}
	for i, v := range r.Gauges {
		optional(p, firstGauge+metricID(i), v, uuid)
	}
}
