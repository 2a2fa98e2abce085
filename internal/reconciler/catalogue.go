package reconciler

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/metric"
	"github.com/gpuledger/gpuledger/internal/reconciler/expected"
	"github.com/gpuledger/gpuledger/internal/reconciler/injector"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/outbox"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
	"github.com/gpuledger/gpuledger/internal/serve"
)

var leadingMetric = metric.Metric{
	Family: "Replicas", Name: "gpuledger_reconciler_leading", Type: prometheus.GaugeValue,
	Help: "1 while this replica is the leader, otherwise 0. Only the leader exports metrics about the cluster.",
}

// Section contains the metrics and labels of one part of the program.
type Section struct {
	Metrics []metric.Metric
	Labels  []metric.Label
}

// Catalogue returns all metrics of the program.
func Catalogue() []Section {
	return []Section{
		{Metrics: []metric.Metric{leadingMetric, watch.Metric}, Labels: []metric.Label{watch.Label}},
		{Metrics: []metric.Metric{serve.Metric}, Labels: []metric.Label{serve.Label}},
		{Metrics: nodes.Catalogue(), Labels: nodes.Labels()},
		{Metrics: workloads.Catalogue(), Labels: workloads.Labels()},
		{Metrics: outbox.Catalogue(), Labels: outbox.Labels()},
		{Metrics: injector.Catalogue(), Labels: injector.Labels()},
		{Metrics: expected.Catalogue(), Labels: expected.Labels()},
	}
}

func (e *election) gauge() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: leadingMetric.Name, Help: leadingMetric.Help}, func() float64 {
		if e.leading.Load() {
			return 1
		}
		return 0
	})
}
