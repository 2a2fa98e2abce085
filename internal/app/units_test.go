package app_test

import (
	"fmt"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

var unitScenarios = []string{"slurm", "slurm-v1", "workstation"}

// TestUnits checks that every unit is charged the energy that it used, within 1 % of the GPU's
// energy. The values on the main page must add up to the millijoule.
func TestUnits(t *testing.T) {
	for _, name := range unitScenarios {
		t.Run(name, func(t *testing.T) {
			b := play(t, name, false)
			checkEquation(t, b.page())
			history, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			for _, g := range b.node.Sampler.Latest().GPUs {
				checkUnits(t, &g, history)
			}
		})
	}
}

func checkEquation(t *testing.T, text string) {
	t.Helper()
	page, err := exposition.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	mJ := func(metric, uuid string) int64 {
		return int64(math.Round(1000 * page.Sum(metric, map[string]string{"UUID": uuid})))
	}
	for _, m := range page.Matches("gpuledger_gpu_energy_joules_total", nil) {
		uuid := exposition.Labels(m)["UUID"]
		sum := int64(0)
		for _, part := range []string{"container_energy", "unit_energy", "unattributed_energy", "retired_energy"} {
			sum += mJ("gpuledger_"+part+"_joules_total", uuid)
		}
		if energy := mJ("gpuledger_gpu_energy_joules_total", uuid); energy != sum {
			t.Errorf("the energy of %s is %d mJ, but its parts add up to %d mJ", uuid, energy, sum)
		}
	}
}

// checkUnits compares a GPU's accounts with the simulator's record of the same time.
func checkUnits(t *testing.T, g *gpu.GPU, history simnode.History) {
	t.Helper()
	var from, to *simnode.GPUTruth
	for i := range history {
		switch row := &history[i]; {
		case row.Time == g.Book.Opened.UnixNano():
			from = row.GPU(g.UUID)
		case row.Boot == int64(g.Book.Settled.Boot):
			to = row.GPU(g.UUID)
		}
	}
	if from == nil || to == nil {
		t.Fatalf("%s: the truth has no row at %v or %v", g.UUID, g.Book.Opened, g.Book.Settled)
	}
	used := to.Since(from)
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		want, known := used[a.Owner]
		if off := float64(a.Energy.Sum()-want) / float64(g.Book.Energy); !known || math.Abs(off) > 0.01 {
			t.Errorf("%s: %s is charged %d mJ, but used %d mJ: off by %.2f %%", g.UUID, a.UID, a.Energy.Sum(), want, 100*off)
		}
		delete(used, a.Owner)
	}
	for o, e := range used {
		t.Errorf("%s: %s has no account, but used %d mJ", g.UUID, o.UID, e)
	}
}

// TestMPSInJobs checks which owner is charged for the work of MPS clients in jobs. The driver reports this work as work
// of the MPS server, which belongs to the job or to a service of the node.
func TestMPSInJobs(t *testing.T) {
	client := func(percent int) simnode.Work {
		return simnode.Work{Watts: 300, Load: simnode.Constant(percent), Memory: 1 << 30, Context: simnode.MPSClient}
	}
	server := process("nvidia-cuda-mps", simnode.Constant(0), simnode.MPSServer)
	own := simnode.SlurmJob("4711", "s8FXKTA79XAR00", 1001, simnode.GPUs(0), client(60))
	second := own.Processes[len(own.Processes)-1]
	second.Work = []simnode.Work{client(20)}
	inside := server
	inside.Below = second.Below
	own.Processes = append(own.Processes, second, inside)
	plain := simnode.SlurmJob("4712", "s8FXKTA79XAR01", 1002, simnode.GPUs(0), process("", simnode.Constant(10), simnode.Compute).Work...)
	service := simnode.Unit{
		Unit: gpu.Unit{Manager: "systemd", Name: "nvidia-mps"}, Cgroup: "/system.slice/nvidia-mps.service", Processes: []simnode.Process{server},
	}
	tests := []struct {
		name  string
		units []simnode.Unit
		want  map[string]float64
	}{
		{"the server belongs to the job", []simnode.Unit{own, plain}, map[string]float64{"4711": 0.87, "4712": 0.13}},
		{
			"the server belongs to a service",
			[]simnode.Unit{
				simnode.SlurmJob("4713", "s8FXKTA79XAR02", 1001, simnode.GPUs(0), client(40)),
				simnode.SlurmJob("4714", "s8FXKTA79XAR03", 1002, simnode.GPUs(0), client(40)), service,
			},
			map[string]float64{"4713": 0.5, "4714": 0.5, "nvidia-mps": 0},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := onH100(0, nil, nil)
			sc.NoKubelet, sc.Units = true, tt.units
			for _, u := range sc.Units[:2] {
				u.Files["held/0"] = sc.Units[0].Name + "\n" + sc.Units[1].Name + "\n"
			}
			b := benchOf(t, sc, false)
			b.run(600)
			b.balanced()
			text := b.page()
			checkEquation(t, text)
			page, err := exposition.Parse(strings.NewReader(text))
			if err != nil {
				t.Fatal(err)
			}
			all := page.Sum("gpuledger_gpu_energy_joules_total", nil)
			for unit, want := range tt.want {
				if got := page.Sum("gpuledger_unit_energy_joules_total", map[string]string{"unit": unit}) / all; math.Abs(got-want) > near {
					t.Errorf("%s is charged %.1f %% of the energy, want %.1f %%", unit, 100*got, 100*want)
				}
			}
			if strays := page.Sum("gpuledger_gpu_processes_without_allocation", nil); strays != 0 {
				t.Errorf("%v processes without an allocation, want none", strays)
			}
		})
	}
}

// TestJobsOnAMD checks that a job holds the AMD GPUs that a prolog names. A prolog identifies a GPU or a partition by
// the number of its render node or by its position.
func TestJobsOnAMD(t *testing.T) {
	for _, tt := range []struct {
		numbers, whole, partition string
	}{
		{"index", "136", "186"}, {"amd", "1", "9"}, // each GPU that precedes the GPU with partitions occupies one position
	} {
		t.Run(tt.numbers, func(t *testing.T) {
			sc, err := simnode.Lookup("mi300x")
			if err != nil {
				t.Fatal(err)
			}
			sc.NoKubelet, sc.Pods = true, nil
			work := simnode.Work{GPU: 1, Watts: 500, Load: simnode.Constant(50), Memory: 1 << 30}
			user, holder := simnode.SlurmJob("4711", "s8FXKTA79XAR00", 1001, simnode.GPUs(1), work), simnode.SlurmJob("4712", "s8FXKTA79XAR01", 1002, simnode.Parts(7, 2))
			user.Files = map[string]string{"held/" + tt.whole: "4711 1001\n"}
			holder.Files = map[string]string{"held/" + tt.partition: "4712 1002\n"}
			sc.Units = []simnode.Unit{user, holder}
			b := benchOf(t, sc, false, "--units.held-numbers="+tt.numbers)
			b.run(20)
			b.balanced()
			got := make(map[string]string)
			for i, g := range b.gpus() {
				for _, h := range g.Holders {
					got[h.UID] = fmt.Sprintf("GPU %d %s %s", i, h.GPUInstance, h.Sharing)
				}
			}
			want := map[string]string{"slurm/4711": "GPU 1  exclusive", "slurm/4712": "GPU 7 2 mig"}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("holders (-want +got):\n%s", diff)
			}
		})
	}
}
