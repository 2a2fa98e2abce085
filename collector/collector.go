package collector

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/metric"
)

// Options selects the metrics on the page.
type Options struct {
	// Gauges enables gauges such as power and temperature, which dcgm-exporter also exports.
	Gauges bool
	// Health enables the metrics for errors, links and limits of a GPU.
	Health bool
	// Details enables the health metrics that Health does not enable, such as fan speeds and clock reasons.
	Details bool
	// Profiling enables the metrics that report how busy the parts of a GPU are, such as the tensor cores.
	Profiling bool

	Process ProcessMode
}

func (o Options) hides(m metric.Metric) bool {
	switch m.Flag {
	case FlagGauges:
		return !o.Gauges
	case FlagHealth:
		return !o.Health
	case FlagDetails:
		return !o.Details
	case FlagProfiling:
		return !o.Profiling
	case FlagProcess:
		return o.Process == ProcessNever
	}
	return false
}

// Collector renders one page of the latest snapshot. It is safe for concurrent use if the function
// that returns the snapshot is also safe for concurrent use.
//
// A Collector is a [prometheus.Collector] and a [prometheus.TransactionalGatherer]. Gather is much faster than a
// registry. A registry creates, checks and sorts the labels of every series in every scrape. Gather creates them only
// after the set of series has changed.
type Collector struct {
	latest func() *gpu.Snapshot
	opts   Options
	on     metric.Page
	render func(*page, *gpu.Snapshot)
	descs  [numMetrics]*prometheus.Desc

	mu       sync.Mutex // locked from Gather until done is called
	page     page
	families []*dto.MetricFamily // series of the page
}

// New returns a collector for the main page. The function latest returns the snapshot to render. If
// the snapshot is nil, there are no metrics.
func New(latest func() *gpu.Snapshot, opts Options) *Collector {
	return newCollector(&Collector{latest: latest, opts: opts, on: MainPage, render: (*page).main})
}

// NewRecord returns a collector for [RecordPage]. It takes no options, because reports over years need all metrics of
// this page.
func NewRecord(latest func() *gpu.Snapshot) *Collector {
	return newCollector(&Collector{latest: latest, on: RecordPage, render: (*page).record})
}

func newCollector(c *Collector) *Collector {
	for i := range catalogue {
		c.descs[i] = catalogue[i].NewDesc()
	}
	c.mustRender()
	c.page.opts = c.opts
	return c
}

// Gather implements [prometheus.TransactionalGatherer]. Gather blocks until the caller of the previous Gather has
// called done, because both calls use the same page. The caller must call done exactly once. It must not wait for a
// slow reader before this call.
func (c *Collector) Gather() (_ []*dto.MetricFamily, done func(), err error) {
	c.mu.Lock()
	defer func() {
		if done == nil { // done is nil after a panic; the HTTP server recovers from the panic
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

// write renders the latest snapshot, and reports whether the set of series changed.
func (c *Collector) write(p *page) (changed bool, err error) {
	p.begin()
	if s := c.latest(); s != nil {
		c.render(p, s)
	}
	return p.end()
}

// Describe implements [prometheus.Collector]. It describes the metrics of the page, except the metrics that the options
// hide.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i, m := range catalogue {
		if m.Page == c.on && !c.opts.hides(m) {
			ch <- c.descs[i]
		}
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	p := page{opts: c.opts} // p is a new page, because a registry does not report when it has finished reading
	if _, err := c.write(&p); err != nil {
		ch <- prometheus.NewInvalidMetric(c.descs[0], err)
	}
	for i := range p.series.len {
		s := p.series.at(i)
		ch <- sample{c.descs[s.metric], s}
	}
}

func (p *page) main(s *gpu.Snapshot) {
	p.node(s)
	p.stages(s.Stages)
	p.processCounts(s.GPUs)
	for i := range s.GPUs {
		p.gpu(&s.GPUs[i])
	}
	p.unitInfos(s)
}

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
		p.accounts(g)
	}
}
