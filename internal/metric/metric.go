// Package metric describes metrics and labels, and creates series. Each program has its own catalogue of metrics.
package metric

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Page is the path of a metrics page. Each metric is on only one page, so sums are correct even if several pages are
// scraped.
type Page string

// MainPage is the default page.
const MainPage Page = ""

// Path returns the HTTP path of the page.
func (p Page) Path() string {
	if p == MainPage {
		return "/metrics"
	}
	return string(p)
}

// Metric describes one metric of a catalogue.
type Metric struct {
	Page   Page
	Family string // heading in the documentation
	Name   string
	Type   prometheus.ValueType
	Unit   string // base unit, or empty for a pure number
	Labels []string
	Help   string
	// Flag is the command-line flag that can hide the metric, or empty if no flag hides it.
	Flag string
}

// Label describes a label. A label has the same meaning in all metrics.
type Label struct {
	Name string
	Help string
	// Values contains the possible values. It is nil if any value is possible.
	Values []string
	// Complete is set if there is a series for every value from the start. Otherwise Prometheus would miss the first
	// increase of a series.
	Complete bool
}

// TypeName returns the type in the spelling of a metrics page.
func (m Metric) TypeName() string { return strings.ToLower(m.Type.ToDTO().String()) }
