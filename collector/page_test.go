package collector_test

import (
	"bytes"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func TestCreatedTimestamps(t *testing.T) {
	opened := map[string]time.Time{
		"gpuledger_gpu_energy_joules_total":                   boot,
		"gpuledger_unattributed_energy_joules_total":          boot,
		"gpuledger_retired_energy_joules_total":               boot,
		"gpuledger_gpu_energy_resets_total":                   boot,
		"gpuledger_gpu_readings_rejected_total":               boot,
		"gpuledger_gpu_unsampled_seconds_total":               boot,
		"gpuledger_gpu_uncounted_energy_bound_joules_total":   boot,
		"gpuledger_gpu_estimated_energy_joules_total":         boot,
		"gpuledger_gpu_xid_errors_total":                      boot,
		"gpuledger_container_energy_joules_total":             boot.Add(10 * time.Minute),
		"gpuledger_container_idle_energy_joules_total":        boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_allocated_seconds_total":     boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_active_seconds_total":        boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_busy_seconds_total":          boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_profiled_seconds_total":      boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_tensor_active_seconds_total": boot.Add(10 * time.Minute),
		"gpuledger_container_gpu_dram_active_seconds_total":   boot.Add(10 * time.Minute),
		"gpuledger_process_energy_joules_total":               boot.Add(11*time.Minute + time.Second),
	}
	families := byName(gather(t, heldAccounts(), everything))
	for name, want := range opened {
		for _, m := range families[name].GetMetric() {
			if got := m.GetCounter().GetCreatedTimestamp(); got == nil || !got.AsTime().Equal(want) {
				t.Errorf("%s: created timestamp %v, want %v", name, got, want)
			}
		}
		delete(families, name)
	}
	for name, mf := range families {
		if mf.GetType() == dto.MetricType_COUNTER && !strings.HasPrefix(name, "gpuledger_stage_") {
			t.Errorf("counter %s is missing from this test", name)
		}
	}
}

// TestBooksBalance checks that the charged and the unattributed energy add up to the energy of each GPU. It skips the
// scenario hostile, in which the page drops owners with indistinguishable names.
func TestBooksBalance(t *testing.T) {
	for _, tt := range scenarios {
		if tt.name == "hostile" {
			continue
		}
		t.Run(tt.name, func(t *testing.T) {
			families := byName(gather(t, tt.snapshot(), tt.opts))
			want := sumByGPU(families, "gpuledger_gpu_energy_joules_total")
			got := sumByGPU(families,
				"gpuledger_container_energy_joules_total",
				"gpuledger_unit_energy_joules_total",
				"gpuledger_unattributed_energy_joules_total",
				"gpuledger_retired_energy_joules_total")
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("books (-gpu energy +accounts):\n%s", diff)
			}
		})
	}
}

// sumByGPU adds up metrics in joules. It returns the sums in millijoules by GPU.
func sumByGPU(families map[string]*dto.MetricFamily, names ...string) map[string]int64 {
	sum := make(map[string]int64)
	for _, name := range names {
		for _, m := range families[name].GetMetric() {
			sum[value(m, "UUID")] += int64(math.Round(m.GetCounter().GetValue() * 1000))
		}
	}
	return sum
}

func value(m *dto.Metric, label string) string {
	for _, l := range m.Label {
		if l.GetName() == label {
			return l.GetValue()
		}
	}
	return ""
}

// TestCollisions checks snapshots that contain two entries with the same labels. The page must contain all series of
// the first entry, and no series of the second entry.
func TestCollisions(t *testing.T) {
	families := byName(gather(t, hostile(), everything))
	tests := []struct {
		name   string
		metric string
		want   []float64
	}{
		{"processes", "gpuledger_process_energy_joules_total", []float64{0.001, 0.003, 0.004}},
		{"containers", "gpuledger_container_idle_energy_joules_total", []float64{0, 0, 0}},
		{"holders", "gpuledger_container_gpu_info", []float64{1, 1, 1}},
		{"GPUs", "gpuledger_gpu_info", []float64{1}},
		{"stages", "gpuledger_stage_failures_total", []float64{0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var got []float64
			for _, m := range families[tt.metric].GetMetric() {
				if method := value(m, "method"); method == "" || method == "shared" {
					got = append(got, m.GetCounter().GetValue()+m.GetGauge().GetValue())
				}
			}
			slices.Sort(got)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("values (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzPage checks that the page of a snapshot with random strings and numbers is valid, and that a parser returns the
// gathered labels.
func FuzzPage(f *testing.F) {
	f.Add("a", "b", "c", uint32(1), int64(1), 0.5)
	f.Add("", "", "", uint32(0), int64(-1), math.NaN())
	f.Add("\xff", "\xfe", "\"\n\\", uint32(1), int64(math.MinInt64), math.Inf(1))
	f.Add(strings.Repeat("€", 100), strings.Repeat("€", 99), strings.Repeat("\xe2", 1000), uint32(7), int64(math.MaxInt64), 1e300)
	f.Fuzz(func(t *testing.T, a, b, c string, pid uint32, n int64, x float64) {
		families := gather(t, tangle(a, b, c, pid, n, x), everything)
		page := text(t, families)
		parser := expfmt.NewTextParser(model.UTF8Validation)
		parsed, err := parser.TextToMetricFamilies(bytes.NewReader(page))
		if err != nil {
			t.Fatalf("parse page: %v", err)
		}
		for _, mf := range families {
			if got, want := labelsOf(parsed[mf.GetName()]), labelsOf(mf); !cmp.Equal(got, want) {
				t.Errorf("%s (-want +got):\n%s", mf.GetName(), cmp.Diff(want, got))
			}
		}
	})
}

// tangle returns a snapshot that contains three strings and three numbers in many places, and
// many equal entries.
func tangle(a, b, c string, pid uint32, n int64, x float64) *gpu.Snapshot {
	strs := []string{a, b, c, a}
	s := &gpu.Snapshot{
		Node:    gpu.Node{Name: a, SysVendor: b, ProductName: c, SystemUUID: a + b + c},
		Drivers: []gpu.Driver{{Name: a, Version: b, Details: map[string]string{"nvml_version": c, "dcgm_version": a, "dcgm_library_version": b}}},
	}
	for _, u := range strs {
		s.Stages = append(s.Stages, gpu.Stage{Name: u, Failures: uint64(n), Duration: time.Duration(n), LastSuccess: time.Unix(n, n)})
		g := gpu.GPU{
			Device:  gpu.Device{UUID: u, Serial: a, Model: b, Fabric: &gpu.Fabric{ClusterUUID: c, State: a}, EnergySource: gpu.EnergySource(b)},
			Present: true, Reading: &gpu.Reading{Gauges: gpu.Gauges{gpu.Power: &x, gpu.Temperature: &x}},
			Events: gpu.DriverEvents{Since: time.Unix(n, 0), Last: map[uint64]time.Time{uint64(n): time.Unix(0, n)}},
			Book:   &gpu.Book{Opened: time.Unix(0, n), Energy: gpu.Millijoules(n)},
		}
		for _, v := range strs {
			key := gpu.AccountKey{GPUInstance: v, Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: u, Name: v, Part: c}}
			g.Holders = append(g.Holders, gpu.Holder{AccountKey: key, Resource: a, Claim: b, Replicas: int(n)})
			g.Book.Accounts = append(g.Book.Accounts, gpu.Account{AccountKey: key, Processes: []gpu.ProcessAccount{
				{ProcessID: gpu.ProcessID{PID: pid}, Name: a, Opened: time.Unix(n, 0), ContainerID: c},
				{ProcessID: gpu.ProcessID{PID: pid}, Name: b},
				{Folded: true},
				{Folded: true, Name: c},
			}})
		}
		g.Partitions = &gpu.Partitioning{Instances: []gpu.Partition{{ID: a, Profile: b, Devices: []gpu.PartitionDevice{{UUID: c}, {UUID: c}}}}}
		g.Processes = []gpu.LiveProcess{{Process: &gpu.Process{ID: gpu.ProcessID{PID: pid}}, SM: &x}}
		s.GPUs = append(s.GPUs, g)
	}
	return s
}

func labelsOf(mf *dto.MetricFamily) []string {
	var all []string
	for _, m := range mf.GetMetric() {
		var values []string
		for _, l := range m.Label {
			values = append(values, l.GetValue())
		}
		all = append(all, strings.Join(values, "\xff"))
	}
	slices.Sort(all)
	return all
}
