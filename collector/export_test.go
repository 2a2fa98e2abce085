package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// NewMistaken is like New, but makes a mistake in the labels of a metric, or omits the metrics of the page.
func NewMistaken(without bool, labels ...string) *Collector {
	return newCollector(&Collector{on: MainPage, render: func(p *page, s *gpu.Snapshot) {
		if !without {
			p.main(s)
		}
		p.info(driverInfo, p.labels(labels...))
	}})
}
