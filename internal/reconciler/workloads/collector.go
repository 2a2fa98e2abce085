package workloads

import (
	"github.com/prometheus/client_golang/prometheus"
)

// Describe implements [prometheus.Collector].
func (w *Workloads) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range w.render.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (w *Workloads) Collect(ch chan<- prometheus.Metric) {
	w.collectCounts(ch)
	b := w.book.Load()
	if b == nil {
		return
	}
	pg := b.page()
	for _, s := range pg.series {
		ch <- s
	}
	for at, n := range pg.stopped {
		ch <- prometheus.MustNewConstMetric(w.render.descs[workloadsStopped], gauge, float64(n), at.kind, string(at.why))
	}
	ch <- prometheus.MustNewConstMetric(w.render.descs[workloadsWaiting], gauge, float64(pg.waiting))
}

// collectCounts shows the counters. Each value of a label is there from the start, so
// that no increase is lost in a series that appears late.
func (w *Workloads) collectCounts(ch chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for m, values := range map[metric][]string{lookups: results(), podEvents: eventNames(), claimFailures: nil} {
		d := w.render.descs[m]
		if values == nil {
			ch <- prometheus.MustNewConstMetric(d, counter, w.counts[m][""])
		}
		for _, v := range values {
			ch <- prometheus.MustNewConstMetric(d, counter, w.counts[m][v], v)
		}
	}
}
