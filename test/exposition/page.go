// Package exposition parses a page of metrics as Prometheus does, for tests that scrape the real exporter.
package exposition

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Page contains the metric families of one scrape, by metric name.
type Page map[string]*dto.MetricFamily

// Parse parses a page in the text format.
func Parse(r io.Reader) (Page, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// Labels returns the labels of a sample.
func Labels(m *dto.Metric) map[string]string {
	out := make(map[string]string, len(m.Label))
	for _, l := range m.Label {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// Value returns the value of a counter, a gauge or an untyped sample.
func Value(m *dto.Metric) float64 {
	switch {
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	}
	return m.Untyped.GetValue()
}

// Matches returns the samples of a metric that have the given labels.
func (p Page) Matches(name string, want map[string]string) []*dto.Metric {
	var out []*dto.Metric
	for _, m := range p[name].GetMetric() {
		got := Labels(m)
		if !slices.ContainsFunc(slices.Collect(maps.Keys(want)), func(k string) bool { return got[k] != want[k] }) {
			out = append(out, m)
		}
	}
	return out
}

// Sum adds up the samples of a metric, in the unit of the metric.
func (p Page) Sum(name string, want map[string]string) float64 {
	var sum float64
	for _, m := range p.Matches(name, want) {
		sum += Value(m)
	}
	return sum
}

// Millijoules adds up the samples of an energy counter.
func (p Page) Millijoules(name string, want map[string]string) gpu.Millijoules {
	var sum gpu.Millijoules
	for _, m := range p.Matches(name, want) {
		sum += gpu.Millijoules(math.Round(Value(m) * 1000))
	}
	return sum
}

// UUIDs returns the UUIDs of the GPUs on a page.
func (p Page) UUIDs() []string {
	var out []string
	for _, m := range p["gpuledger_gpu_info"].GetMetric() {
		out = append(out, Labels(m)["UUID"])
	}
	return out
}

// Series returns all series of a page as strings, without the series of the Go runtime.
func (p Page) Series() []string {
	var out []string
	for name, f := range p {
		if strings.HasPrefix(name, "go_") {
			continue
		}
		for _, m := range f.GetMetric() {
			out = append(out, fmt.Sprint(name, Labels(m)))
		}
	}
	slices.Sort(out)
	return out
}

// Scrape reads the page at a URL.
func Scrape(ctx context.Context, url string) (Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	return Parse(response.Body)
}

// ScrapeCreated is [Scrape], but requests the format with created timestamps.
func ScrapeCreated(ctx context.Context, url string) (Page, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", string(expfmt.NewFormat(expfmt.TypeProtoDelim)))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answers %s", url, response.Status)
	}
	page := make(Page)
	for decoder := expfmt.NewDecoder(response.Body, expfmt.ResponseFormat(response.Header)); ; {
		family := new(dto.MetricFamily)
		switch err := decoder.Decode(family); {
		case errors.Is(err, io.EOF):
			return page, nil
		case err != nil:
			return nil, fmt.Errorf("parse %s: %w", url, err)
		}
		page[family.GetName()] = family
	}
}
