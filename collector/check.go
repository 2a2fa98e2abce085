package collector

import (
	"fmt"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// mustRender panics unless the page of full snapshots has every metric of the catalogue with its
// labels. A mistake in this package thus ends the program at its start, and not the scrapes of the
// nodes that have the metric.
func (c *Collector) mustRender() {
	missing := make(map[string]bool)
	for _, m := range catalogue {
		if m.Page == c.on {
			missing[m.Name] = true
		}
	}
	for _, conditions := range []bool{true, false} {
		p := page{opts: Options{Gauges: true}}
		p.begin()
		c.render(&p, gpu.Full[gpu.Snapshot](conditions))
		if _, err := p.end(); err != nil {
			panic(err)
		}
		for _, f := range families(&p.series) {
			delete(missing, f.GetName())
		}
	}
	if len(missing) > 0 {
		panic(fmt.Sprintf("page %s lacks %v", c.on.Path(), missing))
	}
}
