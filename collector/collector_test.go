package collector_test

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/test/golden"
)

var everything = collector.Options{Gauges: true, Health: true, Details: true, Profiling: true, Process: collector.ProcessAlways}

var scenarios = []struct {
	name     string
	snapshot func() *gpu.Snapshot
	opts     collector.Options
}{
	{"full_node", fullNode, everything},
	{"full_node_shared_processes", fullNode, collector.Options{Gauges: true, Health: true, Profiling: true, Process: collector.ProcessShared}},
	{"full_node_least", fullNode, collector.Options{Process: collector.ProcessNever}},
	{"lost_gpu", lostGPU, everything},
	{"no_driver", noDriver, everything},
	{"held_accounts", heldAccounts, everything},
	{"hostile", hostile, everything},
	{"slurm_node", slurmNode, everything},
}

func TestPages(t *testing.T) {
	for _, tt := range scenarios {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.name, gather(t, tt.snapshot(), tt.opts))
		})
	}
}

func checkGolden(t *testing.T, name string, families []*dto.MetricFamily) {
	t.Helper()
	golden.Check(t, name+".prom", text(t, families))
}

func TestLint(t *testing.T) {
	for _, tt := range scenarios {
		t.Run(tt.name, func(t *testing.T) {
			lint(t, gather(t, tt.snapshot(), tt.opts))
			lint(t, gatherRecord(t, tt.snapshot()))
		})
	}
}

func lint(t *testing.T, families []*dto.MetricFamily) {
	t.Helper()
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestNoSnapshot(t *testing.T) {
	if got := append(gather(t, nil, everything), gatherRecord(t, nil)...); len(got) > 0 {
		t.Errorf("pages without a snapshot have %d families, want 0", len(got))
	}
}

// TestNoEnergy checks a GPU that reports neither energy nor power. The page must contain no energy source for it.
func TestNoEnergy(t *testing.T) {
	s := fullNode()
	s.GPUs[0].EnergySource = gpu.EnergyNone
	got := byName(gather(t, s, everything))["gpuledger_gpu_energy_source_info"].GetMetric()
	for _, m := range got {
		if value(m, "UUID") == s.GPUs[0].UUID {
			t.Errorf("GPU without energy has an energy source: %v", m)
		}
	}
	if len(got) != len(s.GPUs)-1 {
		t.Errorf("%d of %d GPUs have an energy source, want all but one", len(got), len(s.GPUs))
	}
}

// TestHiddenMetrics checks that each option hides exactly the metrics that the catalogue lists for it.
func TestHiddenMetrics(t *testing.T) {
	tests := []struct {
		name string
		flag string
		opts collector.Options
	}{
		{"gauges", collector.FlagGauges, collector.Options{Health: true, Details: true, Profiling: true, Process: collector.ProcessAlways}},
		{"health", collector.FlagHealth, collector.Options{Gauges: true, Details: true, Profiling: true, Process: collector.ProcessAlways}},
		{"details", collector.FlagDetails, collector.Options{Gauges: true, Health: true, Profiling: true, Process: collector.ProcessAlways}},
		{"processes", collector.FlagProcess, collector.Options{Gauges: true, Health: true, Details: true, Profiling: true, Process: collector.ProcessNever}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := byName(gather(t, fullNode(), everything))
			for _, m := range collector.Catalogue() {
				if m.Flag == tt.flag {
					delete(want, m.Name)
				}
			}
			got := gather(t, fullNode(), tt.opts)
			if diff := cmp.Diff(pageOf(t, want), string(text(t, got))); diff != "" {
				t.Errorf("page differs (-want +got):\n%s", diff)
			}
		})
	}
}

func gather(t testing.TB, s *gpu.Snapshot, opts collector.Options) []*dto.MetricFamily {
	t.Helper()
	families, err := registry(s, opts).Gather()
	if err != nil {
		t.Fatalf("gather: %v", err)
	}
	return families
}

func gatherRecord(t testing.TB, s *gpu.Snapshot) []*dto.MetricFamily {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector.NewRecord(func() *gpu.Snapshot { return s }))
	families, err := r.Gather()
	if err != nil {
		t.Fatalf("gather record: %v", err)
	}
	return families
}

func registry(s *gpu.Snapshot, opts collector.Options) *prometheus.Registry {
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(collector.New(func() *gpu.Snapshot { return s }, opts))
	return r
}

func text(t testing.TB, families []*dto.MetricFamily) []byte {
	t.Helper()
	var page bytes.Buffer
	for _, mf := range families {
		if _, err := expfmt.MetricFamilyToText(&page, mf); err != nil {
			t.Fatal(err)
		}
	}
	return page.Bytes()
}

func byName(families []*dto.MetricFamily) map[string]*dto.MetricFamily {
	m := make(map[string]*dto.MetricFamily, len(families))
	for _, mf := range families {
		m[mf.GetName()] = mf
	}
	return m
}

func pageOf(t testing.TB, families map[string]*dto.MetricFamily) string {
	t.Helper()
	var sorted []*dto.MetricFamily
	for _, name := range slices.Sorted(maps.Keys(families)) {
		sorted = append(sorted, families[name])
	}
	return string(text(t, sorted))
}
