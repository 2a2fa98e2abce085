package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// NewMistaken is like New, but either uses the given labels for a metric, which may be wrong, or omits the
// metrics of the page.
func NewMistaken(without bool, labels ...string) *Collector {
	return newCollector(&Collector{on: MainPage, render: func(p *page, s *gpu.Snapshot) {
		if !without {
			p.main(s)
		}
		p.info(driverInfo, p.labels(labels...))
	}})
}
