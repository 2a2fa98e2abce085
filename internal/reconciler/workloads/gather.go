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

// newCounter returns a counter of the catalogue. All its label values exist from the start, so
// that no increase is lost in a series that appears late.
func newCounter(m metricID, values []string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: catalogue[m].Name, Help: catalogue[m].Help}, catalogue[m].Labels)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}
