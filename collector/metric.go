package collector

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// The pages of metrics. RecordPage has the series that are kept for years.
const (
	MainPage               = metric.MainPage
	RecordPage metric.Page = "/metrics/record"
)

// The flags that hide metrics.
const (
	FlagGauges  = "--collector.gauges"
	FlagProcess = "--collector.process"
)

// Catalogue returns every metric, page by page and family by family.
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

// Labels returns every label of the catalogue's metrics.
func Labels() []metric.Label { return slices.Clone(labelCatalogue) }

// Per returns the kind of object that adds [Series] series to a metric.
func Per(m metric.Metric) string {
	for _, key := range []struct{ label, per string }{
		{"pid", "process"}, {"container", "container and GPU"}, {"pod_uid", "pod and GPU"}, {"xid", "GPU and XID code seen"}, {"mig_uuid", "MIG device"}, {"UUID", "GPU"}, {"stage", "stage"},
	} {
		if slices.Contains(m.Labels, key.label) {
			return key.per
		}
	}
	return "node"
}

// Series returns the number of series that a metric has at most for each object of [Per].
func Series(m metric.Metric) int {
	n := 1
	for _, l := range labelCatalogue {
		if l.Complete && slices.Contains(m.Labels, l.Name) {
			n *= len(l.Values)
		}
	}
	return n
}
