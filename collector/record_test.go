package collector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

var records = []struct {
	name     string
	snapshot func() *gpu.Snapshot
}{
	{"full_node", fullNode},
	{"lost_gpu", lostGPU},
	{"no_driver", noDriver},
	{"held_accounts", heldAccounts},
	{"hostile", hostile},
	{"pod_on_instances", podOnInstances},
	{"slurm_node", slurmNode},
}

func TestRecords(t *testing.T) {
	for _, tt := range records {
		t.Run(tt.name, func(t *testing.T) {
			checkGolden(t, tt.name+".record", gatherRecord(t, tt.snapshot()))
		})
	}
}

// podOnInstances returns a node with a GPU in MIG mode. One pod holds two instances, and two of its containers are on
// the same instance. The other accounts belong to pods without a UID or without a name.
func podOnInstances() *gpu.Snapshot {
	var accounts []gpu.Account
	for i, key := range []gpu.AccountKey{
		{GPUInstance: "1", Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "trainer-0", UID: "uid-0", Part: "main"}},
		{GPUInstance: "1", Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "trainer-0", UID: "uid-0", Part: "sidecar"}},
		{GPUInstance: "2", Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "trainer-0", UID: "uid-0", Part: "main"}},
		{GPUInstance: "2", Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-a", Name: "trainer-0", UID: "uid-again", Part: "main"}},
		{GPUInstance: "3", Owner: gpu.Owner{Kind: gpu.OwnerPod, UID: "uid-1", Part: "main"}},
		{GPUInstance: "3", Owner: gpu.Owner{Kind: gpu.OwnerPod, Scope: "team-b", Name: "chat-0", Part: "main"}},
	} {
		accounts = append(accounts, gpu.Account{
			AccountKey: key, Opened: boot.Add(time.Hour - time.Duration(i)*time.Minute), Allocated: time.Duration(i+1) * 1500 * time.Millisecond,
			Energy: gpu.ByMethod{gpu.Exclusive: 1, gpu.Shared: gpu.Millijoules(10 * (i + 1)), gpu.Allocated: 1000},
		})
	}
	g := newGPU(0, accounts...)
	g.Partitions = newMIG(3)
	return &gpu.Snapshot{Node: gpu.Node{Name: "gpu-node-17"}, GPUs: []gpu.GPU{g}}
}

// TestRecordBalances compares the energy on the pages [collector.RecordPage] and [collector.MainPage], to the
// millijoule. The energy of each pod must be the sum over its containers, and the energy of each board must equal the
// energy of the GPU.
func TestRecordBalances(t *testing.T) {
	for _, tt := range records {
		if tt.name == "hostile" {
			continue // the page drops accounts with indistinguishable names
		}
		t.Run(tt.name, func(t *testing.T) {
			page, record := byName(gather(t, tt.snapshot(), everything)), byName(gatherRecord(t, tt.snapshot()))
			for _, pair := range [][2]string{
				{"gpuledger_container_energy_joules_total", "gpuledger_allocation_energy_joules_total"},
				{"gpuledger_container_gpu_allocated_seconds_total", "gpuledger_allocation_seconds_total"},
				{"gpuledger_container_idle_energy_joules_total", "gpuledger_allocation_idle_energy_joules_total"},
				{"gpuledger_container_gpu_active_seconds_total", "gpuledger_allocation_active_seconds_total"},
				{"gpuledger_container_gpu_busy_seconds_total", "gpuledger_allocation_busy_seconds_total"},
				{"gpuledger_container_gpu_profiled_seconds_total", "gpuledger_allocation_profiled_seconds_total"},
				{"gpuledger_container_gpu_tensor_active_seconds_total", "gpuledger_allocation_tensor_active_seconds_total"},
				{"gpuledger_container_gpu_dram_active_seconds_total", "gpuledger_allocation_dram_active_seconds_total"},
				{"gpuledger_gpu_estimated_energy_joules_total", "gpuledger_board_estimated_energy_joules_total"},
				{"gpuledger_gpu_uncounted_energy_bound_joules_total", "gpuledger_board_uncounted_energy_bound_joules_total"},
				{"gpuledger_gpu_energy_joules_total", "gpuledger_board_energy_joules_total"},
				{"gpuledger_unattributed_energy_joules_total", "gpuledger_board_unattributed_energy_joules_total"},
				{"gpuledger_gpu_energy_resets_total", "gpuledger_board_energy_resets_total"},
			} {
				if diff := cmp.Diff(byPod(page[pair[0]]), byPod(record[pair[1]])); diff != "" {
					t.Errorf("%s (-page +record):\n%s", pair[1], diff)
				}
			}
		})
	}
}

// byPod adds up the values of a metric by GPU and pod, in thousandths of the metric's unit. It omits pods without a
// namespace, name or UID.
func byPod(family *dto.MetricFamily) map[string]int64 {
	sum := make(map[string]int64)
	for _, m := range family.GetMetric() {
		pod := []string{value(m, "namespace"), value(m, "pod"), value(m, "pod_uid")}
		if key := strings.Join(pod, "/"); key == "//" || !strings.Contains("/"+key+"/", "//") {
			sum[value(m, "UUID")+" "+key] += int64(m.GetCounter().GetValue()*1000 + 0.5)
		}
	}
	return sum
}

// TestRecordBegan checks created timestamps. The created timestamp of a pod's counters must be the opening time of the
// pod's first account. The created timestamp of a board's counters must be the time at which the exporter began to
// count the board's energy. If a counter continues a series with another serial number, it must have no created
// timestamp.
func TestRecordBegan(t *testing.T) {
	opened := boot.Add(time.Hour - 2*time.Minute) // opening time of the third account of the pod
	tests := []struct {
		name    string
		renamed time.Time
		want    map[string]time.Time
	}{
		{"never renamed", time.Time{}, map[string]time.Time{"board": boot, "pod": opened}},
		{"before the pod started", opened.Add(-time.Minute), map[string]time.Time{"board": {}, "pod": opened}},
		{"while the pod ran", opened.Add(time.Second), map[string]time.Time{"board": {}, "pod": {}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := podOnInstances()
			s.GPUs[0].Renamed = tt.renamed
			families := byName(gatherRecord(t, s))
			got := map[string]time.Time{
				"board": createdOf(families["gpuledger_board_energy_joules_total"], ""),
				"pod":   createdOf(families["gpuledger_allocation_energy_joules_total"], "uid-0"),
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("created timestamps (-want +got):\n%s", diff)
			}
			if seconds := createdOf(families["gpuledger_allocation_seconds_total"], "uid-0"); !seconds.Equal(got["pod"]) {
				t.Errorf("created timestamp of the pod's seconds: %v, want the created timestamp of its energy, %v", seconds, got["pod"])
			}
		})
	}
}

func createdOf(family *dto.MetricFamily, podUID string) time.Time {
	for _, m := range family.GetMetric() {
		if created := m.GetCounter().GetCreatedTimestamp(); value(m, "pod_uid") == podUID && created != nil {
			return created.AsTime()
		}
	}
	return time.Time{}
}
