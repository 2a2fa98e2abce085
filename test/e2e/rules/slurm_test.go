//go:build e2e

package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/prometheus"
	"github.com/gpuledger/gpuledger/test/worlds"
)

const slurmRules = "../../../dashboards/rules/slurm/*.yaml"

// TestSlurmRules checks the optional rules for sites with Slurm. A Prometheus with their results must answer the
// queries of jobstats about a job on two GPUs.
func TestSlurmRules(t *testing.T) {
	promtool(t, append([]string{"check", "rules", "--lint=all", "--lint-fatal"}, glob(t, slurmRules)...)...)
	const end = 20 * time.Minute
	h := worlds.New(30 * time.Second)
	for i := range 2 {
		on := map[string]string{"cluster": "alps", "node": "gpu-1", "instance": "gpu-1:9840", "UUID": fmt.Sprintf("GPU-%d", i)}
		h.Constant(worlds.Series("gpuledger_gpu_info", worlds.With(on, "gpu", fmt.Sprint(i), "device", fmt.Sprintf("nvidia%d", 7-i), "model", "H100")), 0, end, 1)
		h.Constant(worlds.Series("gpuledger_unit_gpu_info", worlds.With(on, "manager", "slurm", "unit", "4711", "sharing", "exclusive")), 0, end, 1)
		h.Constant(worlds.Series("gpuledger_gpu_utilization_ratio", on), 0, end, 0.25*float64(i+1))
		h.Constant(worlds.Series("gpuledger_gpu_memory_used_bytes", on), 0, end, float64(i+1)*1e9)
		h.Constant(worlds.Series("gpuledger_gpu_memory_total_bytes", on), 0, end, 80e9)
	}
	info := map[string]string{"cluster": "alps", "node": "gpu-1", "instance": "gpu-1:9840", "manager": "slurm", "unit": "4711", "uid": "1001"}
	h.Constant(worlds.Series("gpuledger_unit_info", info), 0, end, 1)
	file, err := filepath.Abs(rules("slurm/jobstats.yaml"))
	check(t, err)
	url := serve(t, h, []string{file, file}) // a backfill does not read results that it has just written
	for query, want := range map[string]map[string]float64{
		`avg_over_time(nvidia_gpu_duty_cycle{cluster='alps',jobid='4711'}[600s:])`:            {"7": 25, "6": 50},
		`max_over_time(nvidia_gpu_memory_total_bytes{cluster='alps',jobid='4711'}[600s:])`:    {"7": 80e9, "6": 80e9},
		`max_over_time(nvidia_gpu_memory_used_bytes{cluster='alps',userid='1001'}[600s:30s])`: {"7": 1e9, "6": 2e9},
	} {
		samples, err := prometheus.Query(t.Context(), url, query, began.Add(19*time.Minute))
		check(t, err)
		got := make(map[string]float64)
		for _, s := range samples {
			got[s.Labels["minor_number"]] = s.Value
			if s.Labels["instance"] != "gpu-1:9445" {
				t.Errorf("%s: instance %s, want the host and a port", query, s.Labels["instance"])
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s = %v, want %v", query, got, want)
		}
	}
}

// The query in docs/slurm.md must return one row for each job, even if two pages describe the job.
func TestSlurmQuery(t *testing.T) {
	text, err := os.ReadFile("../../../docs/slurm.md")
	check(t, err)
	h := worlds.New(30 * time.Second)
	job := map[string]string{"node": "a", "manager": "slurm", "unit": "4711"}
	info := worlds.With(job, "uid", "1001", "account", "physics")
	for _, page := range []string{"gpuledger", "federated"} {
		h.Constant(worlds.Series("gpuledger_unit_info", worlds.With(info, "job", page)), 0, time.Hour, 1)
	}
	h.Constant(worlds.Series("gpuledger_unit_energy_joules_total", worlds.With(job, "UUID", "GPU-1", "method", "shared")), 0, time.Hour, 7.2e6)
	want := map[string]float64{`{account="physics", uid="1001", unit="4711"}`: 2}
	runTests(t, nil, map[string]any{"evaluation_interval": "1m"}, []testGroup{groupOf(h, 0, []expressionTest{expect(promdoc.Blocks(string(text))[0], 30*time.Minute, want)})})
}
