package collector

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Options choose what is shown.
type Options struct {
	// Gauges shows power, temperature and the like. Where dcgm-exporter runs on
	// the node they are there already.
	Gauges  bool
	Process ProcessMode
}

// hides reports whether the options hide a metric for good.
func (o Options) hides(m Metric) bool {
	return m.Flag == FlagGauges && !o.Gauges || m.Flag == FlagProcess && o.Process == ProcessNever
}

// Collector renders the latest snapshot. It is safe for concurrent use if the
// function given to [New] is.
type Collector struct {
	latest func() *gpu.Snapshot
	opts   Options
	descs  [numMetrics]*prometheus.Desc
}

// New returns a collector of what latest returns. A nil snapshot has no metrics.
func New(latest func() *gpu.Snapshot, opts Options) *Collector {
	c := &Collector{latest: latest, opts: opts}
	for i, m := range catalogue {
		c.descs[i] = prometheus.V2.NewDesc(m.Name, m.Help, prometheus.UnconstrainedLabels(m.Labels), nil, prometheus.WithUnit(m.Unit))
	}
	return c
}

// Describe implements [prometheus.Collector]: the whole catalogue, less what the
// options hide.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for i, m := range catalogue {
		if !c.opts.hides(m) {
			ch <- c.descs[i]
		}
	}
}

// Collect implements [prometheus.Collector].
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	s := c.latest()
	if s == nil {
		return
	}
	p := page{ch: ch, descs: &c.descs, opts: c.opts, seen: make(map[series]struct{})}
	p.node(s)
	p.stages(s.Stages)
	p.processCounts(s.GPUs)
	for i := range s.GPUs {
		p.gpu(&s.GPUs[i])
	}
}

// gpu renders all there is about one GPU.
func (p *page) gpu(g *gpu.GPU) {
	uuid := values(g.UUID)
	if !p.first(gpuInfo, uuid) {
		return
	}
	p.identity(g, uuid)
	p.health(g, uuid)
	p.gauges(g, uuid)
	p.holders(g)
	if g.Book != nil {
		p.energy(g, uuid)
		p.containers(g)
	}
}
