package nodes

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/reconciler/machine"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// counts are the counters since the program started, on any replica. All label values exist
// from the start, so that no first increase is lost.
type counts struct {
	descs                        [numMetrics]*prometheus.Desc
	reads, writes, writeFailures *prometheus.CounterVec
}

func newCounts() *counts {
	c := &counts{reads: counterOf(reads), writes: counterOf(writes), writeFailures: counterOf(writeFailures)}
	for i, m := range catalogue {
		c.descs[i] = prometheus.NewDesc(m.Name, m.Help, m.Labels, nil)
	}
	return c
}

func counterOf(m metricID) *prometheus.CounterVec {
	row := catalogue[m]
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: row.Name, Help: row.Help}, row.Labels)
	for _, value := range valuesOf(row.Labels[0]) {
		v.WithLabelValues(value)
	}
	return v
}

// Describe implements [prometheus.Collector].
func (n *Nodes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range n.counts.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (n *Nodes) Collect(ch chan<- prometheus.Metric) {
	n.counts.reads.Collect(ch)
	n.counts.writes.Collect(ch)
	n.counts.writeFailures.Collect(ch)
	if t := n.term.Load(); t != nil && t.synced.Load() {
		t.collect(ch, time.Now())
	}
}

// collect renders the state of the cluster.
func (t *term) collect(ch chan<- prometheus.Metric, now time.Time) {
	show := func(m metricID, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(t.counts.descs[m], gauge, value, labels...)
	}
	known := make(map[string]bool)
	for _, name := range t.fleet.withExporter() {
		known[name] = true
	}
	for _, obj := range t.nodes.GetStore().List() {
		n, ok := obj.(*node)
		if !ok {
			continue
		}
		reasons := t.expected(n)
		for _, reason := range reasons {
			show(nodeExpected, 1, n.Name, reason)
		}
		if len(reasons) > 0 || known[n.Name] {
			uuid := gpu.Identity(n.systemUUID)
			show(nodeMachine, 1, n.Name, n.providerID, machine.ID(n.providerID, uuid), uuid)
		}
	}
	thought := make(map[validator.State]int)
	for name, f := range t.validator.Findings(now) {
		thought[f.State]++
		if f.State.Refused() {
			show(nodeRefused, 1, name, string(f.State))
		}
	}
	for _, s := range validator.States {
		show(exporterStates, float64(thought[s]), string(s))
	}
	for condition, count := range t.fleet.census() {
		show(exporters, float64(count), condition)
	}
	show(changesHeld, float64(t.held.size()))
}
