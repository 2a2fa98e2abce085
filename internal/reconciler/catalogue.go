package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler/expected"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
)

// leadingMetric is the one metric of the program itself.
var leadingMetric = metric.Metric{
	Family: "Replicas", Name: "gpuledger_reconciler_leading", Type: prometheus.GaugeValue,
	Help: "1 while this replica leads, 0 while it follows. Metrics of the cluster come from the leader only.",
}

// Part is the metrics of one part of the program, and what their labels mean there.
type Part struct {
	Metrics []metric.Metric
	Labels  []metric.Label
}

// Catalogue returns every metric of the program, part by part.
func Catalogue() []Part {
	return []Part{
		{Metrics: []metric.Metric{leadingMetric, watch.Metric}, Labels: []metric.Label{watch.Label}},
		{Metrics: []metric.Metric{serve.Metric}, Labels: []metric.Label{serve.Label}},
		{Metrics: nodes.Catalogue(), Labels: nodes.Labels()},
		{Metrics: workloads.Catalogue(), Labels: workloads.Labels()},
		{Metrics: expected.Catalogue(), Labels: expected.Labels()},
	}
}

// gauge shows whether this replica leads.
func (e *election) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: leadingMetric.Name, Help: leadingMetric.Help}, func() float64 {
		if e.leading.Load() {
			return 1
		}
		return 0
	})
}
