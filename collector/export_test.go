package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// NewMistaken returns a collector whose page does not match the catalogue. The page contains the metric driverInfo with
// the given labels, which may be wrong. If without is set, the page lacks all other metrics.
func NewMistaken(without bool, labels ...string) *Collector {
	return newCollector(&Collector{on: MainPage, render: func(p *page, s *gpu.Snapshot) {
		if !without {
			p.main(s)
		}
		p.info(driverInfo, p.labels(labels...))
	}})
}
