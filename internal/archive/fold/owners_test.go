package fold_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func last(value float64, metric string, pairs ...string) fold.Series {
	labels := foldtest.Labels(metric, pairs...)
	return fold.Series{Labels: labels, Samples: []fold.Sample{{Value: value}}}
}

// TestOwners checks the names of workloads, teams, users and machines. Two replicas of the reconciler report the same
// series. The owner chain of one pod became known in two steps.
func TestOwners(t *testing.T) {
	s := history{foldtest.NewStore()}
	s.board(59, 100, -600, "a")
	s.board(61, 160, -600, "a")
	for i, pod := range []string{"p", "q"} {
		s.Add(at(61), float64(10*(i+1)), podEnergy, "node", "a", "UUID", "GPU-1", "namespace", "ml", "pod", pod, "pod_uid", "uid-"+pod)
	}
	for _, unit := range []string{"7", "8"} {
		s.Add(at(61), 5, "gpuledger_unit_allocation_energy_joules_total", "node", "a", "UUID", "GPU-1", "manager", "slurm", "unit", unit)
	}
	var owners []fold.Series
	for _, replica := range []string{"r1", "r2"} {
		pod := []string{"namespace", "ml", "pod", "p", "pod_uid", "uid-p", "node", "a", "owner_kind", "ReplicaSet", "owner_name", "x-1", "instance", replica}
		owners = append(
			owners,
			last(1, "gpuledger_pod_info", append(pod, "workload_kind", "Deployment", "workload_name", "x", "workload_uid", "w", "queue", "user-queue", "cluster_queue", "cluster-queue")...),
			last(1, "gpuledger_pod_info", append(pod, "workload_kind", "Deployment", "workload_name", "x", "workload_uid", "w", "queue", "user-queue")...), // Kueue has not admitted the workload yet
			last(1, "gpuledger_pod_info", append(pod, "workload_kind", "ReplicaSet", "workload_name", "x-1", "workload_uid", "")...),
			last(2, "gpuledger_pod_gpu_requests", "namespace", "ml", "pod", "p", "pod_uid", "uid-p", "resource", "nvidia.com/gpu", "instance", replica),
			last(1, "gpuledger_pod_labels", "namespace", "ml", "pod", "p", "pod_uid", "uid-p", "label_example_com_team", "blue", "label_project", "moon", "label_empty", "", "instance", replica),
			last(1, "gpuledger_workload_info", "kind", "Deployment", "namespace", "ml", "name", "x", "uid", "w", "instance", replica),
			last(1, "gpuledger_node_machine_info", "node", "a", "machine", "vm-7", "instance", replica),
		)
	}
	// The user of a job becomes known late. Job 8 on node b is another job than job 8 on node a.
	job := []string{"node", "a", "manager", "slurm", "unit", "7", "account", "physics", "uid", "1000"}
	owners = append(
		owners,
		last(1, "gpuledger_unit_info", append(job, "user", "alice")...),
		last(1, "gpuledger_unit_info", append(job, "user", "")...),
		last(1, "gpuledger_unit_info", "node", "b", "manager", "slurm", "unit", "8", "account", "biology", "user", "bob"),
	)
	owners = append(owners, last(1, "kube_namespace_labels", "namespace", "ml", "label_example_com_team", "green"))
	h, err := hour(s.Store, 1)
	check(t, err)
	fold.Name(h, owners, "example.com/team")
	want := &table.Hour{
		Start: at(60).UTC(),
		GPUs:  []table.GPU{{Node: "a", UUID: "GPU-1", Machine: "vm-7", Energy: 60_000}},
		Charges: []table.Charge{
			{Node: "a", UUID: "GPU-1", Manager: "slurm", Unit: "7", Team: "physics", Username: "alice", Energy: 5_000, Began: at(60).UTC(), Ended: at(61).UTC()},
			{Node: "a", UUID: "GPU-1", Manager: "slurm", Unit: "8", Energy: 5_000, Began: at(60).UTC(), Ended: at(61).UTC()},
			{Node: "a", UUID: "GPU-1", Namespace: "ml", Pod: "p", PodUID: "uid-p", WorkloadKind: "Deployment", WorkloadName: "x", WorkloadUID: "w", Team: "blue", Queue: "user-queue", ClusterQueue: "cluster-queue", Labels: "example_com_team=blue,project=moon", Energy: 10_000, Began: at(60).UTC(), Ended: at(61).UTC()},
			{Node: "a", UUID: "GPU-1", Namespace: "ml", Pod: "q", PodUID: "uid-q", Team: "green", Energy: 20_000, Began: at(60).UTC(), Ended: at(61).UTC()},
			{Node: "a", UUID: "GPU-1", Reason: fold.Unrecorded, Energy: 20_000},
		},
		Pods: []table.Pod{{
			Namespace: "ml", Pod: "p", PodUID: "uid-p", Node: "a", OwnerKind: "ReplicaSet", OwnerName: "x-1",
			WorkloadKind: "Deployment", WorkloadName: "x", WorkloadUID: "w", Team: "blue", Requests: map[string]int64{"nvidia.com/gpu": 2},
			Queue: "user-queue", ClusterQueue: "cluster-queue", Labels: "example_com_team=blue,project=moon",
		}},
		Workloads:   []table.Workload{{Kind: "Deployment", Namespace: "ml", Name: "x", UID: "w"}},
		UnknownPods: []table.PodID{{Namespace: "ml", Pod: "q", UID: "uid-q"}},
	}
	if diff := cmp.Diff(want, h); diff != "" {
		t.Errorf("hour (-want +got):\n%s", diff)
	}
}

// TestDescriptions checks which of several descriptions of a unit is used. It must be the last description with an
// account. If none has an account, it must be the last description with a user. The account and the user must come from
// the same description.
func TestDescriptions(t *testing.T) {
	at := func(minute int64, pairs ...string) fold.Series {
		labels := foldtest.Labels("gpuledger_unit_info", append(pairs, "node", "a", "manager", "slurm", "unit", "7")...)
		return fold.Series{Labels: labels, Samples: []fold.Sample{{Time: 0, Value: 1}, {Time: minute * 60_000, Value: 1}}}
	}
	type owner struct{ account, user string }
	tests := []struct {
		name   string
		series []fold.Series
		want   owner
	}{
		{"before the prolog and after the epilog", []fold.Series{at(1, "uid", "1000"), at(2, "account", "physics"), at(3, "uid", "1000")}, owner{"physics", ""}},
		{"the user becomes known", []fold.Series{at(1, "account", "physics"), at(2, "account", "physics", "user", "ada"), at(3, "account", "physics")}, owner{"physics", "ada"}},
		{"requeued", []fold.Series{at(1, "account", "physics", "user", "ada", "partition", "gpu"), at(2, "account", "biology", "uid", "1001")}, owner{"biology", "1001"}},
		{"no account", []fold.Series{at(1, "uid", "1000"), at(2, "sluid", "s8FXKTA79XAR00")}, owner{"", "1000"}},
		{"another user", []fold.Series{at(1, "uid", "1000", "user", "ada"), at(2, "uid", "1001")}, owner{"", "1001"}},
		{"two pages at once", []fold.Series{at(1, "account", "physics", "user", "ada"), at(1, "account", "physics", "uid", "1000")}, owner{"physics", "ada"}},
		{"no description", nil, owner{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for range 2 {
				h := table.Hour{Charges: []table.Charge{{Node: "a", Manager: "slurm", Unit: "7"}}}
				fold.Name(&h, tt.series, "")
				if got := (owner{h.Charges[0].Team, h.Charges[0].Username}); got != tt.want {
					t.Errorf("%+v, want %+v", got, tt.want)
				}
				slices.Reverse(tt.series)
			}
		})
	}
}

// TestDifference checks that charges and differences add up. It includes pods that only one of the two lists contains.
func TestDifference(t *testing.T) {
	charge := func(pod string, energy int64) table.Charge {
		return table.Charge{Node: "a", UUID: "GPU-1", Pod: pod, Energy: energy, Idle: energy / 2, Team: "blue"}
	}
	before := []table.Charge{charge("gone", 5), charge("same", 7), charge("less", 9), charge("less", -1)}
	now := []table.Charge{charge("less", 2), charge("new", 3), charge("same", 7)}
	want := []table.Charge{
		{Node: "a", UUID: "GPU-1", Pod: "gone", Energy: -5, Idle: -2, Team: "blue"},
		{Node: "a", UUID: "GPU-1", Pod: "less", Energy: -6, Idle: -3, Team: "blue"},
		{Node: "a", UUID: "GPU-1", Pod: "new", Energy: 3, Idle: 1, Team: "blue"},
	}
	if diff := cmp.Diff(want, table.Difference(before, now)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}
