package collector

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// The pages of metrics. RecordPage contains the series that are kept for years.
const (
	MainPage               = metric.MainPage
	RecordPage metric.Page = "/metrics/record"
)

// Flags that hide metrics.
const (
	FlagGauges    = "--collector.gauges"
	FlagHealth    = "--collector.health"
	FlagDetails   = "--collector.health.details"
	FlagProcess   = "--collector.process"
	FlagProfiling = "--collector.profiling"
)

// Catalogue returns all metrics. The metrics of [MainPage] precede the metrics of [RecordPage].
func Catalogue() []metric.Metric { return slices.Clone(catalogue[:]) }

// Labels returns all labels of the metrics in the catalogue.
func Labels() []metric.Label { return slices.Clone(labelCatalogue) }

// Each row of perLabels contains the labels that identify an object, and the kind of this object. Rows with more
// specific labels come first, because [Per] uses the first row that matches.
var perLabels = []struct {
	labels []string
	per    string
}{
	{[]string{"pid", "unit"}, "process of a unit"},
	{[]string{"pid"}, "process"},
	{[]string{"throttle", "unit"}, "unit, GPU and throttle cause seen"},
	{[]string{"throttle", "container"}, "container, GPU and throttle cause seen"},
	{[]string{"throttle", "pod_uid"}, "pod, GPU and throttle cause seen"},
	{[]string{"throttle"}, "GPU and throttle cause seen"},
	{[]string{"container", "unit"}, "GPU and job in a container"},
	{[]string{"pod_uid", "unit"}, "GPU and job in a pod"},
	{[]string{"container"}, "container and GPU"},
	{[]string{"sluid"}, "unit"},
	{[]string{"unit"}, "unit and GPU"},
	{[]string{"pod_uid"}, "pod and GPU"},
	{[]string{"pod_namespace"}, "namespace"},
	{[]string{"xid"}, "GPU and XID code seen"},
	{[]string{"sxid"}, "NVSwitch, SXID code and severity seen"},
	{[]string{"block"}, "GPU and block"},
	{[]string{"problem"}, "GPU and fabric problem"},
	{[]string{"mig_uuid"}, "MIG device"},
	{[]string{"fan"}, "GPU and fan"},
	{[]string{"GPU_I_ID"}, "MIG instance"},
	{[]string{"UUID"}, "GPU"},
	{[]string{"stage"}, "stage"},
}

// Per returns the kind of object that the metric's labels identify, such as "unit and GPU". The metric has at most
// [Series] series for each object of this kind.
func Per(m metric.Metric) string {
	for _, key := range perLabels {
		if !slices.ContainsFunc(key.labels, func(l string) bool { return !slices.Contains(m.Labels, l) }) {
			return key.per
		}
	}
	return "node"
}

// Series returns the maximum number of series that a metric has for each object of the kind that [Per] returns.
func Series(m metric.Metric) int {
	n := 1
	for _, l := range labelCatalogue {
		if l.Complete && slices.Contains(m.Labels, l.Name) {
			n *= len(l.Values)
		}
	}
	return n
}
