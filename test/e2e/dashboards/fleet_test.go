//go:build e2e

package dashboards_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/test/prometheus"
)

// Three boards draw 100 W each. Two of them are of the same model. One pod always holds the first board, another pod
// holds the second board for an hour, and a job holds half of the third board for an hour. The second board has an XID
// error, and the third board is lost once.
func capacity() []byte {
	var h history
	for i, model := range []string{"A100", "H100", "H100"} {
		serial, gpu := fmt.Sprint("S", i+1), fmt.Sprint("GPU-", i+1)
		h.board(serial, gpu, 0, end, 0, 100)
		h.counter(fmt.Sprintf(`gpuledger_placement_info{node="a",UUID="%s",serial="%s",model="%s",chassis_serial="C",chassis_slot="%d"}`, gpu, serial, model, i+1), 0, end, 1, 0)
	}
	h.pod("S1", "GPU-1", "alpha/train", 0, end, 0, 60)
	h.pod("S2", "GPU-2", "beta/short", 2*time.Hour, 3*time.Hour, 0, 30)
	h.unit("S3", "GPU-3", "slurm/4711", 2*time.Hour, 3*time.Hour, 20, 0.5)
	h.counter(`gpuledger_board_xid_errors_total{node="a",UUID="GPU-2",serial="S2",xid="79"}`, 150*time.Minute, end, 1, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-2",serial="S2"}`, 0, end, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-3",serial="S3"}`, 0, 149*time.Minute, 0, 0)
	h.counter(`gpuledger_board_losses_total{node="a",UUID="GPU-3",serial="S3"}`, 150*time.Minute, end, 1, 0)
	return h.bytes()
}

// TestFleet checks the values in the dashboard "Fleet" during the busiest hour. It also checks them at 4:02 and 5:02,
// because the recording rules have results for an hour only after its end.
func TestFleet(t *testing.T) {
	var rules []string
	for _, name := range []string{"energy", "placement"} {
		file, err := filepath.Abs("../../../dashboards/rules/" + name + ".yaml")
		check(t, err)
		rules = append(rules, file)
	}
	address := backfilled(t, "fleet", end, capacity(), rules...)
	const now, peak, later = 150 * time.Minute, 4*time.Hour + 2*time.Minute, 5*time.Hour + 2*time.Minute
	tests := []struct {
		panel, model string
		at           time.Duration
		want         []map[string]float64 // result of each query
	}{
		{"GPUs present", ".*", now, []map[string]float64{{"": 3}}},
		{"GPUs allocated", ".*", now, []map[string]float64{{"": 3}}},
		{"GPUs allocated", ".*", later, []map[string]float64{{"": 1}}},
		{"GPUs free", ".*", now, []map[string]float64{{"": 0}}},
		{"GPUs free", "H100", later, []map[string]float64{{"": 2}}},
		{"Active share", ".*", now, []map[string]float64{{"": 1.25 / 3}}},
		{"GPUs allocated", "H100", now, []map[string]float64{{"": 2}}},
		{"Models", ".*", now, []map[string]float64{{"A100": 1, "H100": 2}, {"A100": 1, "H100": 2}, {"A100": 0.5, "H100": 0.75 / 2}, {"A100": 100, "H100": 200}}},
		{"Models", ".*", later, []map[string]float64{{"A100": 1, "H100": 2}, {"A100": 1, "H100": 0}, {"A100": 0.5, "H100": 0}, {"A100": 100, "H100": 200}}},
		{"GPUs free at the peak", ".*", peak, []map[string]float64{{"": 0}}},
		{"GPUs free at the peak", "H100", peak, []map[string]float64{{"": 0}}},
		{"GPUs free at the peak", "A100", peak, []map[string]float64{{"": 0}}},
		{"Allocated share", ".*", peak, []map[string]float64{{"": 3.5 / 6}}},
		{"Allocated share", "H100", peak, []map[string]float64{{"": 1.5 / 4}}},
		{"GPUs present and allocated", ".*", peak, []map[string]float64{{"": 3}, {"": 2.5}}},
		// The rules do not have results yet for the hour of the failures.
		{"Failures by model", ".*", now + 2*time.Minute, []map[string]float64{{"H100": 1}, {"H100": 1}}},
		{"Failures by slot", ".*", now + 2*time.Minute, []map[string]float64{{"a C 2": 1}, {"a C 3": 1}}},
		{"Failures by model", ".*", peak, []map[string]float64{{"H100": 1}, {"H100": 1}}},
		{"Failures by model", "A100", peak, []map[string]float64{{}, {}}},
		{"Failures by slot", ".*", peak, []map[string]float64{{"a C 2": 1}, {"a C 3": 1}}},
		{"Power by use", ".*", peak, []map[string]float64{{"": 0.75 * 90}, {"": 0.25 * 90}, {"": 300 - 90 - 20}, {"": 0.75 * 20}, {"": 0.25 * 20}}},
		{"Power by use", ".*", later, []map[string]float64{{"": 0.75 * 60}, {"": 0.25 * 60}, {"": 300 - 60}, {}, {}}},
	}
	for _, tt := range tests {
		for _, p := range read(t, "../../../dashboards/fleet.json").Panels {
			if p.Title != tt.panel {
				continue
			}
			var got []map[string]float64
			for _, q := range p.Targets {
				expr := filled(q.Expr, "fleet", map[string]string{"__range": "2h", "__rate_interval": "4m", "model": tt.model})
				samples, err := prometheus.Query(t.Context(), address, expr, began.Add(tt.at))
				check(t, err)
				values := make(map[string]float64)
				for _, s := range samples {
					values[strings.TrimSpace(s.Labels["model"]+s.Labels["node"]+" "+s.Labels["chassis_serial"]+" "+s.Labels["chassis_slot"])] = s.Value
				}
				got = append(got, values)
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("%s of %s (-want +got):\n%s", tt.panel, tt.model, diff)
			}
		}
	}
}
