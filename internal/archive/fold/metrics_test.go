package fold_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// TestMetricsAreRecorded checks that all metrics that the archive reads are in the exporter's record, and that the
// archive reads all counters of a board.
func TestMetricsAreRecorded(t *testing.T) {
	read, recorded := fold.Metrics(), make(map[string]bool)
	for _, m := range collector.Catalogue() {
		if recorded[m.Name] = m.Page == collector.RecordPage; !recorded[m.Name] {
			continue
		}
		if isCounter := strings.HasPrefix(m.Name, "gpuledger_board_") && strings.HasSuffix(m.Name, "_total"); isCounter && !slices.Contains(read, m.Name) {
			t.Errorf("%s is recorded, but not read", m.Name)
		}
	}
	for _, name := range read {
		if !recorded[name] {
			t.Errorf("%s is read, but not recorded", name)
		}
	}
}
