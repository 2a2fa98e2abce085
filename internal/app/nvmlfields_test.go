package app_test

import (
	"math"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
)

// TestFieldsEqualEngine compares the field page from NVML with the field page from the simulated host engine, for each
// series that both report. It uses the first tick, whose values are all from the same moment.
func TestFieldsEqualEngine(t *testing.T) {
	b := newBench(t, "dgx-h100", true)
	b.run(1)
	engine := series(t, collector.NewFields(b.node.Sampler.Latest, collector.Hostname))
	ours := series(t, collector.NewNVMLFields(b.node.Sampler.Latest, collector.Hostname, collector.DefaultSelection()))
	equal := 0
	for key, want := range engine {
		got, ok := ours[key]
		switch {
		case !ok:
		case math.Abs(got-want) > 1e-9*want:
			t.Errorf("%s is %v from NVML, but %v from the host engine", key, got, want)
		default:
			equal++
		}
	}
	if equal < 8*14 {
		t.Errorf("the sources reported %d and %d values, but have only %d in common", equal, len(engine), len(ours))
	}
}

// series returns the values of a field page by name and labels. It omits the labels that come from fields.
func series(t *testing.T, c *collector.Fields) map[string]float64 {
	t.Helper()
	families, done, err := c.Gather()
	defer done()
	if err != nil {
		t.Fatal(err)
	}
	values := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			values[key(f, m)] = m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	return values
}

func key(f *dto.MetricFamily, m *dto.Metric) string {
	words := []string{f.GetName(), f.GetType().String()}
	for _, l := range m.Label {
		if !strings.HasPrefix(l.GetName(), "DCGM_") {
			words = append(words, l.GetName()+"="+l.GetValue())
		}
	}
	return strings.Join(words, " ")
}
