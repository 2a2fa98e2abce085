package collector

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// mustRender panics unless the pages of full snapshots contain every metric of the catalogue with
// its labels. Therefore a mistake in this package ends the program when it starts, and not later
// during a scrape.
func (c *Collector) mustRender() {
	missing := make(map[string]bool)
	for _, m := range catalogue {
		if m.Page == c.on {
			missing[m.Name] = true
		}
	}
	for _, s := range fullSnapshots() {
		p := page{opts: Options{Gauges: true, Health: true, Profiling: true}}
		p.begin()
		c.render(&p, s)
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

// fullSnapshots returns snapshots with a value in every field, with and without all conditions, for
// each kind of owner that has accounts.
func fullSnapshots() (all []*gpu.Snapshot) {
	for _, conditions := range []bool{true, false} {
		for _, kind := range gpu.AccountKinds() {
			s := gpu.Full[gpu.Snapshot](conditions)
			s.GPUs[0].Reading.Health = nil
			for m, info := range gpu.HealthInfos {
				for _, labels := range combinations(info.Labels) {
					s.GPUs[0].Reading.Health = append(s.GPUs[0].Reading.Health, gpu.HealthValue{Metric: gpu.HealthMetric(m), Labels: labels, Value: 1})
				}
			}
			s.GPUs[0].Totals = []gpu.HealthValue{{Metric: gpu.ECCErrors, Labels: []string{"dram", "correctable"}}}
			s.GPUs[0].Holders[0].Kind, s.GPUs[0].Book.Accounts[0].Kind = kind, kind
			all = append(all, s)
		}
	}
	return all
}

// combinations returns all combinations of the values of the given labels.
func combinations(names []string) [][]string {
	all := [][]string{nil}
	for _, name := range names {
		i := slices.IndexFunc(labelCatalogue, func(l metric.Label) bool { return l.Name == name })
		var longer [][]string
		for _, value := range labelCatalogue[i].Values {
			for _, before := range all {
				longer = append(longer, append(slices.Clone(before), value))
			}
		}
		all = longer
	}
	return all
}
