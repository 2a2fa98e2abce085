package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// NewMistaken returns a collector with a mistake. If without is set, the page lacks its metrics. Otherwise
// a metric on the page has the given labels, which may be wrong.
func NewMistaken(without bool, labels ...string) *Collector {
	return newCollector(&Collector{on: MainPage, render: func(p *page, s *gpu.Snapshot) {
		if !without {
			p.main(s)
		}
		p.info(driverInfo, p.labels(labels...))
	}})
}
