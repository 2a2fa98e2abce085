package workloads

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gather implements [prometheus.TransactionalGatherer]. A registry would hash and sort
// every sample at every scrape, which takes longer than all the rest: here they are
// valid and unique because they were made so.
func (w *Workloads) Gather() (families []*dto.MetricFamily, done func(), err error) {
	families, err = w.counters.Gather()
	if b := w.book.Load(); b != nil {
		pg := b.page()
		for m, samples := range pg.samples {
			if len(samples) > 0 {
				families = append(families, catalogue[m].NewFamily(samples))
			}
		}
	}
	return families, func() {}, err
}

// mustRender panics unless a book with everything has every gauge of the catalogue with its labels.
// Gauges with labels of the allow-lists are checked without these labels.
func mustRender() {
	r := newRenderer(Options{})
	chain := &ownerChain{levels: make([]reference, 1), stopped: failed}
	e := &entry{pod: &pod{labels: []string{}, annotations: []string{}}, amounts: make([]amount, 1)}
	e.samples = r.pod(e, r.belonging(reference{}, reference{}), queue{})
	b := &book{
		render: r, listed: true, pods: map[key]*entry{{}: e},
		owners: map[reference]*owner{{}: {chain: chain, above: r.owner(chain)}},
	}
	for m, samples := range b.page().samples {
		if len(samples) == 0 && catalogue[m].Type == gauge {
			panic(catalogue[m].Name + " is not rendered")
		}
		for _, s := range samples {
			if err := catalogue[m].Check(s.Label); err != nil {
				panic(err)
			}
		}
	}
}

// newCounter returns a counter of the catalogue. All its label values exist from the start, so
// that no increase is lost in a series that appears late.
func newCounter(m metricID, values []string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: catalogue[m].Name, Help: catalogue[m].Help}, catalogue[m].Labels)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}
