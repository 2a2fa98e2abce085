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
