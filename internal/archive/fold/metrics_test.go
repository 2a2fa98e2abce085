package fold_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// TestMetricsAreRecorded checks that the archive reads all metrics of the exporter's record page. It excludes the
// metrics that only rules and alerts use.
func TestMetricsAreRecorded(t *testing.T) {
	var recorded []string
	for _, m := range collector.Catalogue() {
		if m.Page == collector.RecordPage && m.Name != "gpuledger_namespace_info" && m.Name != "gpuledger_allocation_unit_energy_joules_total" {
			recorded = append(recorded, m.Name)
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(recorded)), slices.Sorted(slices.Values(fold.Metrics()))); diff != "" {
		t.Errorf("metrics (-recorded +read):\n%s", diff)
	}
}
