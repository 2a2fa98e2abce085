//go:build realtime

package main_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/test/exposition"
)

// checkRecord compares the record with the main page from the same snapshot: the sums over pods and boards, the places,
// and the serial numbers. For every metric of the record, the main page must contain the series from which the metric
// is derived.
func checkRecord(t *testing.T, e *exporter) {
	t.Helper()
	_, bodies := e.atOneMoment("/metrics", "/metrics/record")
	p, record := e.parse(bodies[0]), e.parse(bodies[1])
	serials := make(map[string]string)
	for _, m := range p["gpuledger_gpu_info"].GetMetric() {
		l := exposition.Labels(m)
		serials[l["UUID"]] = l["serial"]
	}
	key := func(l map[string]string) string {
		return fmt.Sprint(l["UUID"], " ", serials[l["UUID"]], " ", l["namespace"], "/", l["pod"], " ", l["pod_uid"], " ", l["manager"], "/", l["unit"], " ", l["reason"], l["source"], l["scope"], l["throttle"])
	}
	all := func(map[string]string) bool { return true }
	exclusive := func(l map[string]string) bool { return l["method"] == "exclusive" }
	want := []string{
		"gpuledger_allocation_gpu_seconds_total", "gpuledger_allocation_estimated_energy_joules_total", "gpuledger_board_losses_total", "gpuledger_board_remapped_rows_total",
		"gpuledger_board_low_memory_banks", "gpuledger_board_thermal_throttled_seconds_total", "gpuledger_board_power_brake_throttled_seconds_total",
		"gpuledger_placement_info", "gpuledger_allocation_created_timestamp_seconds", "gpuledger_board_created_timestamp_seconds",
		"gpuledger_unit_allocation_gpu_seconds_total", "gpuledger_unit_allocation_estimated_energy_joules_total", "gpuledger_unit_allocation_created_timestamp_seconds", "gpuledger_namespace_info",
	}
	onPage := namespaces(p["gpuledger_container_energy_joules_total"], "namespace")
	if diff := cmp.Diff(onPage, namespaces(record["gpuledger_namespace_info"], "pod_namespace")); diff != "" {
		t.Errorf("namespaces (-page +record):\n%s", diff)
	}
	want = append(want, hardwareCounters...)
	for _, pair := range []struct {
		page, record string
		counts       func(labels map[string]string) bool
	}{
		{"gpuledger_container_energy_joules_total", "gpuledger_allocation_energy_joules_total", all},
		{"gpuledger_container_energy_joules_total", "gpuledger_allocation_exclusive_energy_joules_total", exclusive},
		{"gpuledger_container_idle_energy_joules_total", "gpuledger_allocation_idle_energy_joules_total", all},
		{"gpuledger_container_gpu_allocated_seconds_total", "gpuledger_allocation_seconds_total", all},
		{"gpuledger_container_gpu_active_seconds_total", "gpuledger_allocation_active_seconds_total", all},
		{"gpuledger_container_gpu_busy_seconds_total", "gpuledger_allocation_busy_seconds_total", all},
		{"gpuledger_container_gpu_throttled_joules_total", "gpuledger_allocation_throttled_joules_total", all},
		{"gpuledger_container_gpu_throttled_seconds_total", "gpuledger_allocation_throttled_seconds_total", all},
		{"gpuledger_unit_energy_joules_total", "gpuledger_unit_allocation_energy_joules_total", all},
		{"gpuledger_unit_energy_joules_total", "gpuledger_unit_allocation_exclusive_energy_joules_total", exclusive},
		{"gpuledger_unit_idle_energy_joules_total", "gpuledger_unit_allocation_idle_energy_joules_total", all},
		{"gpuledger_unit_gpu_allocated_seconds_total", "gpuledger_unit_allocation_seconds_total", all},
		{"gpuledger_unit_gpu_active_seconds_total", "gpuledger_unit_allocation_active_seconds_total", all},
		{"gpuledger_unit_gpu_busy_seconds_total", "gpuledger_unit_allocation_busy_seconds_total", all},
		{"gpuledger_unit_gpu_throttled_joules_total", "gpuledger_unit_allocation_throttled_joules_total", all},
		{"gpuledger_unit_gpu_throttled_seconds_total", "gpuledger_unit_allocation_throttled_seconds_total", all},
		{"gpuledger_gpu_energy_joules_total", "gpuledger_board_energy_joules_total", all},
		{"gpuledger_gpu_estimated_energy_joules_total", "gpuledger_board_estimated_energy_joules_total", all},
		{"gpuledger_gpu_uncounted_energy_bound_joules_total", "gpuledger_board_uncounted_energy_bound_joules_total", all},
		{"gpuledger_unattributed_energy_joules_total", "gpuledger_board_unattributed_energy_joules_total", all},
		{"gpuledger_gpu_energy_source_info", "gpuledger_board_energy_source_info", all},
		{"gpuledger_gpu_energy_resets_total", "gpuledger_board_energy_resets_total", all},
		{"gpuledger_gpu_recovery_action_info", "gpuledger_board_recovery_action_info", all},
		{"gpuledger_gpu_xid_errors_total", "gpuledger_board_xid_errors_total", all},
	} {
		want = append(want, pair.record)
		onPage := sums(p[pair.page], key, pair.counts)
		if pair.page == "gpuledger_gpu_xid_errors_total" { // the record has one series per code, so it has no zeros
			maps.DeleteFunc(onPage, func(_ string, n int64) bool { return n == 0 })
		}
		if diff := cmp.Diff(onPage, sums(record[pair.record], key, all)); diff != "" {
			t.Errorf("%s (-page +record):\n%s", pair.record, diff)
		}
	}
	for name := range record {
		if !slices.Contains(want, name) {
			t.Errorf("the record contains %s, which this test does not compare", name)
		}
	}
	for l, held := range sums(record["gpuledger_allocation_seconds_total"], key, all) {
		if weighted := sums(record["gpuledger_allocation_gpu_seconds_total"], key, all)[l]; weighted > held {
			t.Errorf("%s: GPU time is %d ns, but held time is %d ns", l, weighted, held)
		}
	}
	if diff := cmp.Diff(present(p), present(record)); diff != "" {
		t.Errorf("GPUs present (-page +record):\n%s", diff)
	}
	for name, f := range record {
		for _, m := range f.GetMetric() {
			if l := exposition.Labels(m); l["serial"] != serials[l["UUID"]] || l["node"] == "" {
				t.Errorf("%s%v has the serial number %q", name, l, serials[l["UUID"]])
			}
		}
	}
}

// The GPU itself keeps the counters of these metrics. The record contains no series of these metrics before the first
// reading.
var hardwareCounters = []string{
	"gpuledger_board_ecc_errors_total", "gpuledger_board_retired_pages_total", "gpuledger_board_pcie_replays_total", "gpuledger_board_nvlink_errors_total",
	"gpuledger_board_ras_errors_total",
}

// sums adds up samples by key, and skips samples for which counts returns false. The sums are in billionths of the unit,
// because times are counted in nanoseconds.
func sums(f *dto.MetricFamily, key func(map[string]string) string, counts func(map[string]string) bool) map[string]int64 {
	out := make(map[string]int64)
	for _, m := range f.GetMetric() {
		l := exposition.Labels(m)
		if !counts(l) {
			continue
		}
		out[key(l)] += int64(math.Round(exposition.Value(m) * 1e9))
	}
	return out
}

func namespaces(family *dto.MetricFamily, label string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range family.GetMetric() {
		found[exposition.Labels(m)[label]] = true
	}
	return found
}

// present returns the identity and place of each GPU that is present.
func present(p page) []string {
	placed := p["gpuledger_placement_info"].GetMetric()
	if placed == nil {
		for _, m := range p["gpuledger_gpu_info"].GetMetric() {
			if p.Sum("gpuledger_gpu_present", map[string]string{"UUID": exposition.Labels(m)["UUID"]}) == 1 {
				placed = append(placed, m)
			}
		}
	}
	var out []string
	for _, m := range placed {
		l := exposition.Labels(m)
		out = append(out, fmt.Sprint(l["UUID"], l["serial"], l["pci_bus_id"], l["model"], l["chassis_serial"], l["chassis_slot"], l["tray_index"]))
	}
	slices.Sort(out)
	return out
}
