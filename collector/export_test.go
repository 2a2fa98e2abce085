package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// NewMistaken returns a collector with a mistake. If without is set, the metrics are missing from the page. Otherwise,
// a metric has the given labels, which may be wrong.
func NewMistaken(without bool, labels ...string) *Collector {
	return newCollector(&Collector{on: MainPage, render: func(p *page, s *gpu.Snapshot) {
		if !without {
			p.main(s)
		}
		p.info(driverInfo, p.labels(labels...))
	}})
}
