//go:build e2e

package rules_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// began is the start of histories on a server.
var began = time.Date(2026, time.March, 1, 0, 0, 0, 0, time.UTC)

// serve starts a Prometheus with the history and the results of rules, and returns its URL. The
// files are evaluated one after the other, so that a file can read the results of earlier ones.
func (h *history) serve(t *testing.T, rules []string) string {
	t.Helper()
	s := prometheus.Server{
		Programs: programs(t), Group: program.OpenFor(t), Name: "history", Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	check(t, s.Load(t.Context(), h.openMetrics()))
	for _, file := range rules {
		check(t, s.Evaluate(t.Context(), file, began, began.Add(h.length())))
	}
	_, err := s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// openMetrics writes the history as text. It has no staleness markers.
func (h *history) openMetrics() []byte {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(h.series)) {
		for _, slot := range slices.Sorted(maps.Keys(h.series[name])) {
			if value := h.series[name][slot]; value != stale {
				fmt.Fprintf(&text, "%s %s %d\n", name, value, began.Add(time.Duration(slot)*h.interval).Unix())
			}
		}
	}
	return []byte(text.String() + "# EOF\n")
}

// length returns the time of the last sample.
func (h *history) length() time.Duration {
	last := 0
	for _, slots := range h.series {
		for slot := range slots {
			last = max(last, slot)
		}
	}
	return time.Duration(last) * h.interval
}

// ask runs a query on a server. Sums of floating-point numbers may be off in their last digits.
func ask(t *testing.T, url, text string, q question) {
	t.Helper()
	samples, err := prometheus.Query(t.Context(), url, text, began.Add(q.at))
	if err != nil {
		t.Errorf("%s, after %v: %v\n%s", q.title, q.at, err, text)
		return
	}
	// All labels together identify a sample.
	for i, s := range samples {
		name := s.Labels["__name__"]
		delete(s.Labels, "__name__")
		samples[i].Labels = map[string]string{"": series(name, s.Labels)}
	}
	answer := prometheus.Answer{By: []string{""}, Want: q.want, Off: 1e-6, Part: 1e-9}
	for _, wrong := range answer.Differences(samples) {
		t.Errorf("%s, after %v: %s", q.title, q.at, wrong)
	}
}
