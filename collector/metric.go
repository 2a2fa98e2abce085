package collector

import (
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Page is a page that the exporter serves. Each has metrics of its own, so that no
// sum is doubled where several are scraped.
type Page int

// The pages.
const (
	MainPage   Page = iota
	RecordPage      // what is kept for years
)

// Path returns where the page is served.
func (p Page) Path() string { return [...]string{"/metrics", "/metrics/record"}[p] }

// Metric is one row of the catalogue.
type Metric struct {
	Page   Page
	Family string // the heading in docs/metrics.md
	Name   string
	Type   prometheus.ValueType
	Unit   string // base unit, empty for a pure number
	Labels []string
	Help   string
	// Flag is the command-line flag that can hide the metric; empty if none can.
	Flag string
}

// Label describes a label, which means the same wherever it appears.
type Label struct {
	Name string
	Help string
	// Values is the closed list of values; nil if the list is open.
	Values []string
	// Complete is set if there is a series for every value from the start, so
	// that no increase is lost in a series that appears late.
	Complete bool
}

// The flags that hide metrics.
const (
	FlagGauges  = "--collector.gauges"
	FlagProcess = "--collector.process"
)

// Catalogue returns every metric, page by page and family by family.
func Catalogue() []Metric { return slices.Clone(catalogue[:]) }

// Labels returns every label of the catalogue's metrics.
func Labels() []Label { return slices.Clone(labelCatalogue) }

// Per names the thing that one more of makes the metric grow by [Metric.Series].
func (m Metric) Per() string {
	for _, key := range []struct{ label, per string }{
		{"pid", "process"}, {"container", "container and GPU"}, {"pod_uid", "pod and GPU"}, {"xid", "GPU and XID code seen"}, {"mig_uuid", "MIG device"}, {"UUID", "GPU"}, {"stage", "stage"},
	} {
		if slices.Contains(m.Labels, key.label) {
			return key.per
		}
	}
	return "node"
}

// Series returns how many series the metric has at most for each of what
// [Metric.Per] names.
func (m Metric) Series() int {
	n := 1
	for _, l := range labelCatalogue {
		if l.Complete && slices.Contains(m.Labels, l.Name) {
			n *= len(l.Values)
		}
	}
	return n
}

// TypeName returns the type as the metrics page spells it.
func (m Metric) TypeName() string { return strings.ToLower(m.Type.ToDTO().String()) }
