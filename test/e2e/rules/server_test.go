//go:build e2e

package rules_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
	"github.com/gpuledger/gpuledger/test/worlds"
)

var began = worlds.Began

// serve returns the URL of a Prometheus that contains the history and the results of the rules. The files are evaluated
// in order, so a rule can read the results of earlier files.
func serve(t *testing.T, h *worlds.History, rules []string) string {
	t.Helper()
	s := prometheus.Server{
		Programs: programs(t), Group: program.OpenFor(t), Name: "history", Address: program.AddressFor(t),
		Flags: []string{"--storage.tsdb.retention.time=100y"},
	}
	check(t, s.Load(t.Context(), h.OpenMetrics()))
	for _, file := range rules {
		check(t, s.Evaluate(t.Context(), file, began, began.Add(h.Length())))
	}
	_, err := s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// The last digits of floating-point sums may differ.
func ask(t *testing.T, url, text string, q question) {
	t.Helper()
	samples, err := prometheus.Query(t.Context(), url, text, began.Add(q.at))
	if err != nil {
		t.Errorf("%s, after %v: %v\n%s", q.title, q.at, err, text)
		return
	}
	for i, s := range samples {
		name := s.Labels["__name__"]
		delete(s.Labels, "__name__")
		samples[i].Labels = map[string]string{"": worlds.Series(name, s.Labels)}
	}
	answer := prometheus.Answer{By: []string{""}, Want: q.want, Off: 1e-6, Part: 1e-9}
	for _, wrong := range answer.Differences(samples) {
		t.Errorf("%s, after %v: %s", q.title, q.at, wrong)
	}
}
