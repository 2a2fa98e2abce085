package collector

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// page is one scrape being written. It lives as long as one Collect.
type page struct {
	ch    chan<- prometheus.Metric
	descs *[numMetrics]*prometheus.Desc
	opts  Options
	seen  map[series]struct{}
}

// series names one series of a metric.
type series struct {
	metric metric
	labels string
}

// first reports whether these labels are new on the page. One duplicate would
// fail the whole scrape, and strings that differ can become equal when they are
// made valid; then the first one stands and the caller drops the later ones.
func (p *page) first(m metric, l labels) bool {
	s := series{m, l.key()}
	if _, ok := p.seen[s]; ok {
		return false
	}
	p.seen[s] = struct{}{}
	return true
}

// info writes a series that is there for its labels.
func (p *page) info(m metric, l labels) { p.gauge(m, 1, l) }

func (p *page) gauge(m metric, v float64, l labels) {
	p.ch <- prometheus.MustNewConstMetric(p.descs[m], gauge, v, l...)
}

// counter writes a counter that began at 0 at the given moment, if that is
// known. Prometheus can then count what came before its first scrape.
func (p *page) counter(m metric, v float64, since time.Time, l labels) {
	if since.IsZero() {
		p.ch <- prometheus.MustNewConstMetric(p.descs[m], counter, v, l...)
		return
	}
	p.ch <- prometheus.MustNewConstMetricWithCreatedTimestamp(p.descs[m], counter, v, since, l...)
}

// optional writes a gauge unless it could not be read.
func optional[T ~float64 | ~uint64 | ~int](p *page, m metric, v *T, l labels) {
	if v != nil {
		p.gauge(m, float64(*v), l)
	}
}

// moment writes a point in time as a gauge, unless it never came.
func (p *page) moment(m metric, t time.Time, l labels) {
	if !t.IsZero() {
		p.gauge(m, float64(t.UnixMilli())/1000, l)
	}
}

// flag writes a condition as 1 or 0.
func (p *page) flag(m metric, on bool, l labels) {
	v := 0.0
	if on {
		v = 1
	}
	p.gauge(m, v, l)
}
