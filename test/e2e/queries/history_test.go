//go:build e2e

package queries_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// A page in the history is scraped every minute while it is valid.
type history struct {
	families map[string]*dto.MetricFamily
	began    time.Time
}

// stand adds a page that is valid from one minute to another, inclusive. It omits the metrics about the programs'
// runtime.
func (h *history) stand(page exposition.Page, from, to int) {
	for name, mf := range page {
		if !strings.HasPrefix(name, "kube_") && !strings.HasPrefix(name, "gpuledger_") {
			continue
		}
		for _, m := range mf.Metric {
			for minute := from; minute <= to; minute++ {
				h.add(mf, m, minute)
			}
		}
	}
}

func (h *history) add(mf *dto.MetricFamily, m *dto.Metric, minute int) {
	all := h.families[mf.GetName()]
	if all == nil {
		all = &dto.MetricFamily{Name: mf.Name, Help: mf.Help, Type: mf.Type}
		h.families[mf.GetName()] = all
	}
	ms := h.began.Add(time.Duration(minute) * time.Minute).UnixMilli()
	all.Metric = append(all.Metric, &dto.Metric{Label: m.Label, Gauge: m.Gauge, Counter: m.Counter, Untyped: m.Untyped, TimestampMs: &ms})
}

// In the OpenMetrics format, all samples of a series must be adjacent.
func (h *history) openMetrics(t *testing.T) []byte {
	t.Helper()
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.families)) {
		mf := h.families[name]
		slices.SortStableFunc(mf.Metric, func(a, b *dto.Metric) int {
			return strings.Compare(fmt.Sprint(exposition.Labels(a)), fmt.Sprint(exposition.Labels(b)))
		})
		_, err := expfmt.MetricFamilyToOpenMetrics(&text, mf)
		check(t, err)
	}
	_, err := expfmt.FinalizeOpenMetrics(&text)
	check(t, err)
	return []byte(text.String())
}

// Queries look back only one interval, so no page affects queries after its end.
func (h *history) serve(t *testing.T) string {
	t.Helper()
	s := server(t)
	s.Flags = []string{"--query.lookback-delta=1m"}
	check(t, s.Load(t.Context(), h.openMetrics(t)))
	_, err := s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// server returns an empty Prometheus that is not started.
func server(t *testing.T) prometheus.Server {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	return prometheus.Server{Programs: programs, Group: program.OpenFor(t), Name: "prometheus", Address: program.AddressFor(t)}
}
