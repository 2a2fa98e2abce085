//go:build e2e

package rules_test

import (
	"os"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/worlds"
)

// TestQueueQueries checks the queries in docs/queues.md with ClusterQueues that share a cohort. One ClusterQueue
// borrows two GPUs, another uses none of its quota, and a third has no quota. Both replicas of Kueue export the
// metrics. The labels come from pkg/metrics/metrics.go of kubernetes-sigs/kueue ff69552e.
func TestQueueQueries(t *testing.T) {
	text, err := os.ReadFile("../../../docs/queues.md")
	check(t, err)
	const end = time.Hour
	h := worlds.New(30 * time.Second)
	for _, role := range []string{"leader", "follower"} {
		for _, q := range []struct {
			name              string
			quota, use, waits float64
		}{{"training", 4, 6, 3}, {"inference", 4, 2, 0}, {"night", 2, 0, 0}, {"borrower", 0, 0, 0}} {
			of := map[string]string{"cluster_queue": q.name, "cohort": "gpus", "flavor": "h100", "resource": "nvidia.com/gpu", "replica_role": role}
			h.Constant(worlds.Series("kueue_cluster_queue_nominal_quota", of), 0, end, q.quota)
			h.Constant(worlds.Series("kueue_cluster_queue_nominal_quota", worlds.With(of, "resource", "cpu")), 0, end, 1000)
			h.Constant(worlds.Series("kueue_cluster_queue_resource_usage", of), 0, end, q.use)
			for status, n := range map[string]float64{"active": q.waits, "inadmissible": 1} {
				h.Constant(worlds.Series("kueue_pending_workloads", map[string]string{"cluster_queue": q.name, "status": status, "replica_role": role}), 0, end, n)
			}
		}
	}
	// Two pods use half of a GPU each. The first pod was admitted a moment ago. A third pod is in no queue.
	h.Constant(worlds.Series("gpuledger_pod_info", map[string]string{"pod_uid": "a"}), 0, end, 1)
	for pod, queue := range map[string]string{"a": "training", "b": "inference", "c": ""} {
		h.Constant(worlds.Series("gpuledger_pod_info", map[string]string{"pod_uid": pod, "cluster_queue": queue}), 0, end, 1)
		h.Linear(worlds.Series("gpuledger_container_gpu_active_seconds_total", map[string]string{"pod_uid": pod, "UUID": "GPU-" + pod}), 0, end, 0, 0.5)
	}
	// A pod waited for three GPUs for 20 of the last 30 minutes. Two replicas of the reconciler report it. A running
	// pod waited for no GPU.
	for _, replica := range []string{"one", "two"} {
		for pod, queue := range map[string]string{"waits": "later", "runs": "later"} {
			of := map[string]string{"namespace": "ml", "pod_uid": pod, "instance": replica}
			h.Constant(worlds.Series("gpuledger_pod_info", worlds.With(of, "queue", queue)), 0, end, 1)
			h.Constant(worlds.Series("gpuledger_pod_gpu_requests", worlds.With(of, "resource", "nvidia.com/gpu")), 0, end, 3)
		}
	}
	pending := map[string]string{"namespace": "ml", "uid": "waits", "phase": "Pending"}
	h.Constant(worlds.Series("kube_pod_status_phase", pending), 0, 20*time.Minute, 1)
	h.Constant(worlds.Series("kube_pod_status_phase", worlds.With(pending, "uid", "runs")), 0, end, 0)
	want := []map[string]float64{
		{`{cluster_queue="training"}`: 1.5, `{cluster_queue="inference"}`: 0.5, `{cluster_queue="night"}`: 0},
		{`{cluster_queue="training"}`: 4, `{cluster_queue="inference"}`: 1, `{cluster_queue="night"}`: 1, `{cluster_queue="borrower"}`: 1},
		{`{namespace="ml", queue="later"}`: 1},
		{`{cohort="gpus"}`: 1},
	}
	queries := promdoc.Blocks(string(text))
	if len(queries) != len(want) {
		t.Fatalf("%d queries, want %d", len(queries), len(want))
	}
	var tests []expressionTest
	for i, query := range queries {
		tests = append(tests, expect(query, 30*time.Minute, want[i]))
	}
	runTests(t, nil, map[string]any{"evaluation_interval": "1m"}, []testGroup{groupOf(h, 0, tests)})
}
