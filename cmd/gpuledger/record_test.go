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

// checkRecord: the record has its four metrics and nothing else, and says of pods,
// boards and places what the main page says of the same moment.
func checkRecord(t *testing.T, e *exporter) {
	t.Helper()
	_, bodies := e.atOneMoment("/metrics", "/metrics/record")
	p, record := e.parse(bodies[0]), e.parse(bodies[1])
	want := []string{"gpuledger_board_energy_joules_total", "gpuledger_placement_info"}
	if p["gpuledger_container_energy_joules_total"] != nil {
		want = append([]string{"gpuledger_allocation_energy_joules_total", "gpuledger_allocation_seconds_total"}, want...)
	}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(record))); diff != "" {
		t.Errorf("metrics of the record (-want +got):\n%s", diff)
	}
	serials := make(map[string]string)
	for _, m := range p["gpuledger_gpu_info"].GetMetric() {
		l := exposition.Labels(m)
		serials[l["UUID"]] = l["serial"]
	}
	pod := func(l map[string]string) string {
		return fmt.Sprint(l["UUID"], " ", serials[l["UUID"]], " ", l["namespace"], "/", l["pod"], " ", l["pod_uid"])
	}
	for _, pair := range [][2]string{
		{"gpuledger_container_energy_joules_total", "gpuledger_allocation_energy_joules_total"},
		{"gpuledger_container_gpu_allocated_seconds_total", "gpuledger_allocation_seconds_total"},
		{"gpuledger_gpu_energy_joules_total", "gpuledger_board_energy_joules_total"},
	} {
		if diff := cmp.Diff(sums(p[pair[0]], pod), sums(record[pair[1]], pod)); diff != "" {
			t.Errorf("%s (-page +record):\n%s", pair[1], diff)
		}
	}
	if diff := cmp.Diff(present(p), present(record)); diff != "" {
		t.Errorf("GPUs present (-page +record):\n%s", diff)
	}
	for name, f := range record {
		for _, m := range f.GetMetric() {
			if l := exposition.Labels(m); l["serial"] != serials[l["UUID"]] || l["node"] == "" {
				t.Errorf("%s%v: the serial number is %q", name, l, serials[l["UUID"]])
			}
		}
	}
}

// sums adds up a metric by what its samples are of, in billionths of its
// unit: time is counted in nanoseconds.
func sums(f *dto.MetricFamily, of func(map[string]string) string) map[string]int64 {
	out := make(map[string]int64)
	for _, m := range f.GetMetric() {
		out[of(exposition.Labels(m))] += int64(math.Round(exposition.Value(m) * 1e9))
	}
	return out
}

// present returns the GPUs that are there, and where: what both pages say of that.
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
