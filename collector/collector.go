package collector

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// Options choose what is shown.
type Options struct {
	// Gauges shows power, temperature and the like. Where dcgm-exporter runs on
	// the node they are there already.
	Gauges  bool
	Process ProcessMode
}

// hides reports whether the options hide a metric for good.
func (o Options) hides(m metric.Metric) bool {
	return m.Flag == FlagGauges && !o.Gauges || m.Flag == FlagProcess && o.Process == ProcessNever
}

// Collector renders one page of the latest snapshot. It is safe for concurrent use
// if the function it was given is.
//
// It is a [prometheus.Collector], which can be registered, and a
// [prometheus.TransactionalGatherer]. As the latter it is much faster: a registry makes
// the labels of every series anew, checks and sorts them, at every scrape; here that is
// done when the series change.
type Collector struct {
	latest func() *gpu.Snapshot
	opts   Options
	on     metric.Page
	render func(*page, *gpu.Snapshot)
	descs  [numMetrics]*prometheus.Desc

	mu       sync.Mutex // held from Gather until done
	page     page
	families []*dto.MetricFamily // of the page's series
}

// New returns a collector of what latest returns, for the main page. A nil snapshot
// has no metrics.
func New(latest func() *gpu.Snapshot, opts Options) *Collector {
	return newCollector(&Collector{latest: latest, opts: opts, on: MainPage, render: (*page).main})
}

// NewRecord is New for the record, which has no options: a statement over years needs
// all of it.
func NewRecord(latest func() *gpu.Snapshot) *Collector {
	return newCollector(&Collector{latest: latest, on: RecordPage, render: (*page).record})
}

func newCollector(c *Collector) *Collector {
	for i := range catalogue {
		c.descs[i] = catalogue[i].NewDesc()
	}
	c.page.opts = c.opts
	return c
}

// Gather implements [prometheus.TransactionalGatherer]. There is one page, which the next
// call writes over: it waits until done was called, which must be called once. So who
// gathers must not wait for somebody who reads slowly.
func (c *Collector) Gather() (_ []*dto.MetricFamily, done func(), err error) {
	c.mu.Lock()
	defer func() {
		if done == nil { // a panic, which an HTTP server outlives
			c.page, c.families = page{opts: c.opts}, nil
			c.mu.Unlock()
		}
	}()
	changed, err := c.write(&c.page)
	if changed {
		c.families = families(&c.page.series)
	}
	return c.families, c.mu.Unlock, err
}

// write renders the latest snapshot, and reports whether the page has other series now.
func (c *Collector) write(p *page) (changed bool, err error) {
	p.begin()
	if s := c.latest(); s != nil {
		c.render(p, s)
	}
	return p.end()
}

// Describe implements [prometheus.Collector]: the page's part of the catalogue, less
// what the options hide.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i, m := range catalogue {
		if m.Page == c.on && !c.opts.hides(m) {
			ch <- c.descs[i]
		}
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	p := page{opts: c.opts} // a registry says not when it has read what it was given
	if _, err := c.write(&p); err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], err)
	}
	for i := range p.series.len {
		s := p.series.at(i)
		ch <- sample{c.descs[s.metric], s}
	}
}

// main renders everything but the record.
func (p *page) main(s *gpu.Snapshot) {
	p.node(s)
	p.stages(s.Stages)
	p.processCounts(s.GPUs)
	for i := range s.GPUs {
		p.gpu(&s.GPUs[i])
	}
}

// gpu renders all there is about one GPU.
func (p *page) gpu(g *gpu.GPU) {
	uuid := p.labels("UUID", g.UUID)
	if !p.first(gpuInfo, uuid) {
		return
	}
	p.identity(g, uuid)
	p.health(g, uuid)
	p.gauges(g, uuid)
	p.holders(g, uuid)
	if g.Book != nil {
		p.energy(g, uuid)
		p.containers(g)
	}
}
