package prometheus_test

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

func TestDifferences(t *testing.T) {
	of := func(pod string, value float64) prometheus.Sample {
		return prometheus.Sample{Labels: map[string]string{"namespace": "ml", "pod": pod}, Value: value}
	}
	want := prometheus.Answer{By: []string{"namespace", "pod"}, Want: map[string]float64{"ml a": 100, "ml b": 0}, Off: 1, Part: 0.02}
	tests := []struct {
		name string
		got  []prometheus.Sample
		want []string
	}{
		{"right", []prometheus.Sample{of("b", 0), of("a", 100)}, nil},
		{"within both tolerances", []prometheus.Sample{of("a", 103), of("b", -1)}, nil},
		{"beyond them", []prometheus.Sample{of("a", 103.1), of("b", 1.1)}, []string{`"ml a" is 103.1, want 100`, `"ml b" is 1.1, want 0`}},
		{"no number", []prometheus.Sample{of("a", math.NaN()), of("b", 0)}, []string{`"ml a" is NaN, want 100`}},
		{"missing", []prometheus.Sample{of("a", 100)}, []string{`"ml b" is missing, want 0`}},
		{"unexpected", []prometheus.Sample{of("a", 100), of("b", 0), of("c", 7)}, []string{"unexpected: map[namespace:ml pod:c] = 7"}},
		{"twice", []prometheus.Sample{of("a", 100), of("b", 0), of("b", 0)}, []string{`"ml b" twice: map[namespace:ml pod:b]`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, want.Differences(tt.got)); diff != "" {
				t.Errorf("differences (-want +got):\n%s", diff)
			}
		})
	}
}
