//go:build e2e

package dashboards_test

import (
	"maps"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// Two boards draw 100 W each and are old at the first scrape. The counter of the first board restarts after two hours
// without scrapes. The second board has two GPUs and loses one of them at the end.
func lives() []byte {
	var h history
	h.board("S1", "GPU-1", 0, 2*time.Hour, oldJoules, 100)
	h.board("S1", "GPU-1", 4*time.Hour, end, 6000, 100)
	h.pod("S1", "GPU-1", "alpha/old", 0, 2*time.Hour, oldJoules, 60)
	h.pod("S1", "GPU-1", "alpha/young", 4*time.Hour, end, 6000, 100)
	for _, gpu := range []string{"GPU-2", "GPU-3"} {
		h.pod("S2", gpu, "beta/both", 0, 4*time.Hour, oldJoules, 50)
	}
	h.board("S2", "GPU-2", 0, end, oldJoules, 50)
	h.pod("S2", "GPU-2", "beta/left", 241*time.Minute, end, 3000, 50)
	h.board("S2", "GPU-3", 0, 5*time.Hour, oldJoules, 50)
	h.counter(`gpuledger_unit_info{node="a",manager="slurm",unit="4711",account="physics",user="alice",uid="1000"}`, 241*time.Minute, 5*time.Hour, 1, 0)
	h.counter(`gpuledger_unit_info{node="a",manager="slurm",unit="4711",uid="1001"}`, 5*time.Hour, end, 1, 0) // after the job's epilog
	h.unit("S2", "GPU-3", "slurm/4711", 241*time.Minute, 5*time.Hour, 20, 0.5)
	return h.bytes()
}

// TestLife checks that the dashboard "GPU life" shows the use in the time range. The dashboard must add up the use of
// both GPUs of a board.
func TestLife(t *testing.T) {
	address := backfilled(t, "life", end, lives())
	life := read(t, "../../../dashboards/gpu-life.json")
	tests := []struct {
		name, serial string
		at           time.Duration
		variables    map[string]string
		want         map[string][]map[string]float64 // results of each query, by panel
	}{
		{
			"an old board and pod", "S1", end, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.2 + 0.2 + 6000/3.6e6}},
				"Pods and workloads": {
					2: {"alpha/old": 7200, "alpha/young": 7200 + 60},
					3: {"alpha/old": 0.12, "alpha/young": 0.2 + 6000/3.6e6},
				},
				"Power by pod and unit": {{"alpha/young": 100}, {"": 0}},
			},
		},
		{
			"a board with one pod on its GPUs", "S2", 4 * time.Hour, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.4}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600},
					3: {"beta/both": 0.4},
				},
				"Power by pod and unit": {{"beta/both": 100}, {"": 0}},
			},
		},
		{
			"a board in half use", "S2", 5 * time.Hour, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.5}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 3570},
					3: {"beta/both": 0.4, "beta/left": 0.05},
				},
				"Units":                 {2: {"slurm/4711": 0.5 * 3540}, 3: {"slurm/4711 alice": 0.02 * 59 / 60}},
				"Power by pod and unit": {{"beta/left": 50}, {"": 30}, {"slurm/4711": 20}},
			},
		},
		{
			"the pods of a namespace", "S2", 5 * time.Hour,
			map[string]string{"manager": "none"},
			map[string][]map[string]float64{
				"Energy":                {{"": 0.5}},
				"Pods":                  {{"": 2}},
				"Units":                 {{}, {}, {}, {}},
				"Power by pod and unit": {{"beta/left": 50}, {"": 30}, {}},
			},
		},
		{
			"the units of Slurm", "S2", 5 * time.Hour,
			map[string]string{"namespace": "none", "manager": "slurm", "unit": "4711"},
			map[string][]map[string]float64{
				"Energy":                {{"": 0.5}},
				"Pods and workloads":    {{}, {}, {}, {}},
				"Units":                 {2: {"slurm/4711": 0.5 * 3540}, 3: {"slurm/4711 alice": 0.02 * 59 / 60}},
				"Power by pod and unit": {{}, {"": 30}, {"slurm/4711": 20}},
			},
		},
		{
			"a board that lost one of its GPUs", "S2", end, nil,
			map[string][]map[string]float64{
				"Energy": {{"": 0.55}},
				"Pods and workloads": {
					2: {"beta/both": 2 * 4 * 3600, "beta/left": 7170},
					3: {"beta/both": 0.4, "beta/left": 0.1},
				},
				"Power by pod and unit": {{"beta/left": 50}, {"": 0}},
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := make(map[string][]map[string]float64)
			given := map[string]string{"__range": "10h", "__rate_interval": "4m", "serial": tt.serial}
			maps.Copy(given, tt.variables)
			for _, p := range life.Panels {
				for i, want := range tt.want[p.Title] {
					var values map[string]float64
					if want != nil {
						values = ask(t, address, "gpu-life", p.Targets[i].Expr, began.Add(tt.at), given)
					}
					got[p.Title] = append(got[p.Title], values)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateApprox(1e-9, 1e-9)); diff != "" {
				t.Errorf("seconds, kilowatt-hours, watts (-want +got):\n%s", diff)
			}
		})
	}
}
