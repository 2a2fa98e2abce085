// Package metric describes metrics and labels, and makes series of them. Both programs use
// it: each has catalogues of its own.
package metric

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Page is the path of a page that a program serves. Each page has metrics of its own, so
// that no sum is doubled where several are scraped.
type Page string

// MainPage is the page of all metrics that name no other.
const MainPage Page = ""

// Path returns where the page is served.
func (p Page) Path() string {
	if p == MainPage {
		return "/metrics"
	}
	return string(p)
}

// Metric is one row of a catalogue.
type Metric struct {
	Page   Page
	Family string // the heading in the documentation
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

// TypeName returns the type as the metrics page spells it.
func (m Metric) TypeName() string { return strings.ToLower(m.Type.ToDTO().String()) }
