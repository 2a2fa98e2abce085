package workloads

import (
	"bufio"
	"io"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// Gather implements [prometheus.TransactionalGatherer] for the counters.
func (w *Workloads) Gather() (families []*dto.MetricFamily, done func(), err error) {
	families, err = w.counters.Gather()
	return families, func() {}, err
}

// WritePage writes the series of pods and workloads in the text format, which is also valid OpenMetrics. It uses
// neither a registry nor an encoder, because hashing, sorting and quoting all samples would take longer than the rest
// of the scrape. The samples need no check, because this package creates only valid and unique samples.
func (w *Workloads) WritePage(to io.Writer) error {
	b := w.book.Load()
	if b == nil {
		return nil
	}
	pg, page := b.page(), bufio.NewWriterSize(to, 64<<10)
	for m, samples := range pg.samples {
		if len(samples) == 0 {
			continue
		}
		head, _ := rendered(metricID(m), &dto.Metric{Gauge: new(dto.Gauge)})
		_, _ = page.WriteString(head) // Flush also returns errors from earlier writes
		for _, s := range samples {
			_, _ = page.WriteString(string(s))
		}
	}
	return page.Flush()
}

// mustRender panics if the page lacks a gauge of the catalogue, or if a gauge has other labels than in the catalogue.
// It does not check the labels from the allow-lists.
func mustRender() {
	r := newRenderer(Options{})
	r.strict = true
	chain := &ownerChain{levels: make([]reference, 1), stopped: failed}
	e := &entry{pod: &pod{labels: []string{}, annotations: []string{}}, amounts: make([]amount, 1)}
	e.samples = r.pod(e, r.belonging(reference{}, reference{}), queue{}, e.pod.labels)
	b := &book{
		render: r, listed: true, pods: map[key]*entry{{}: e},
		owners: map[reference]*owner{{}: {chain: chain, above: r.owner(chain)}},
	}
	for m, samples := range b.page().samples {
		if len(samples) == 0 && catalogue[m].Type == gauge {
			panic(catalogue[m].Name + " is not rendered")
		}
	}
}

// newCounter returns a counter that has a series for every label value from the start, so that Prometheus does not miss
// the first increase.
func newCounter(m metricID, values []string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: catalogue[m].Name, Help: catalogue[m].Help}, catalogue[m].Labels)
	for _, v := range values {
		c.WithLabelValues(v)
	}
	return c
}
