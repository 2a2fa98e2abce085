package collector

import (
	"fmt"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// mustRender renders pages from full snapshots. It panics if the pages lack a metric in the catalogue, or one of this
// metric's labels. So a mistake in this package ends the program at its start, and not during a scrape.
func (c *Collector) mustRender() {
	missing := make(map[string]bool)
	for _, m := range catalogue {
		if m.Page == c.on {
			missing[m.Name] = true
		}
	}
	for _, s := range fullSnapshots() {
		p := page{opts: Options{Gauges: true, Health: true, Details: true, Profiling: true}}
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
		panic(fmt.Sprintf("page %s does not contain %v", c.on.Path(), missing))
	}
}

// fullSnapshots returns two snapshots for each kind of owner. All booleans are true in one snapshot and false in the
// other. All other fields have values.
func fullSnapshots() (all []*gpu.Snapshot) {
	for _, conditions := range []bool{true, false} {
		for _, kind := range gpu.AccountKinds() {
			s := gpu.Full[gpu.Snapshot](conditions)
			fillHealth(s.GPUs[0].Reading)
			s.GPUs[0].Totals = []gpu.HealthValue{{Metric: gpu.ECCErrors, Labels: []string{"dram", "correctable"}}}
			s.GPUs[0].Holders[0].Kind, s.GPUs[0].Book.Accounts[0].Kind = kind, kind
			all = append(all, s)
		}
	}
	return all
}

func fillHealth(r *gpu.Reading) {
	r.Health, r.Details = nil, nil
	for m, info := range gpu.HealthInfos {
		values := &r.Health
		if info.Detail {
			values = &r.Details
		}
		for _, labels := range combinations(info.Labels) {
			*values = append(*values, gpu.HealthValue{Metric: gpu.HealthMetric(m), Labels: labels, Value: 1})
		}
	}
}

// combinations returns every combination of label values for the given label names. A label without values in the
// catalogue gets the value x.
func combinations(names []string) [][]string {
	all := [][]string{nil}
	for _, name := range names {
		i := slices.IndexFunc(labelCatalogue, func(l metric.Label) bool { return l.Name == name })
		values := labelCatalogue[i].Values
		if values == nil {
			values = []string{"x"}
		}
		var longer [][]string
		for _, value := range values {
			for _, before := range all {
				longer = append(longer, append(slices.Clone(before), value))
			}
		}
		all = longer
	}
	return all
}
