package app_test

import (
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/exposition"
)

const near = 0.03

// share is the fraction of a GPU's energy that a test expects for a pod, or for unattributed energy with a reason.
type share struct {
	// payer is the name of a pod, or a reason for unattributed energy in parentheses.
	payer  string
	energy float64
	// method is the expected method of all charges. If it is empty, the method is not checked.
	method string
}

// TestBills checks how the energy of a GPU is divided among pods. Some pods hold the GPU, some work steadily or in
// bursts, and some only have a context. The test covers everything from the driver's library to the page.
func TestBills(t *testing.T) {
	if testing.Short() {
		t.Skip("long: make test runs it, and make race RACEFLAGS= with the race detector")
	}
	const server = "nvidia-cuda-mps"
	idle, tenth := simnode.Constant(0), simnode.Constant(10)
	tests := []struct {
		name     string
		replicas int
		pods     []simnode.Pod
		daemons  []simnode.Process
		want     []share
		idle     float64 // expected share of idle energy; 0 if it is not checked
	}{
		{
			name: "a pod with its own MPS server beside a pod without one", replicas: 2,
			pods: []simnode.Pod{
				sharingPod("a", 0, process("python3", simnode.Constant(80), simnode.MPSClient), process(server, idle, simnode.MPSServer)),
				sharingPod("b", 1, process("python3", tenth, simnode.Compute)),
			},
			want: []share{{"a", 0.87, ""}, {"b", 0.13, ""}},
		},
		{
			name: "two clients of the plugin's MPS server and a display", replicas: 2,
			pods: []simnode.Pod{
				sharingPod("a", 0, process("python3", simnode.Constant(40), simnode.MPSClient)),
				sharingPod("b", 1, process("python3", simnode.Constant(40), simnode.MPSClient)),
				sharingPod("mps", -1, process(server, idle, simnode.MPSServer)),
			},
			daemons: []simnode.Process{process("Xorg", simnode.Constant(2), simnode.Graphics)},
			want:    []share{{"a", 0.49, ""}, {"b", 0.49, ""}, {"(host)", 0.02, ""}},
		},
		{
			name: "an MPS server after all clients have ended", replicas: 2,
			pods: []simnode.Pod{
				sharingPod("a", 0), sharingPod("b", 1),
				sharingPod("mps", -1, process(server, idle, simnode.MPSServer)),
			},
			want: []share{{"a", 0.5, "allocated"}, {"b", 0.5, "allocated"}},
		},
		{
			name: "an idle display beside a holder without a process",
			pods: []simnode.Pod{sharingPod("a", 0)}, daemons: []simnode.Process{process("Xorg", idle, simnode.Graphics)},
			want: []share{{"a", 1, "allocated"}},
		},
		{
			name: "an idle monitor beside a holder without a process",
			pods: []simnode.Pod{sharingPod("a", 0), sharingPod("monitor", -1, process("dcgm-exporter", idle, simnode.Compute))},
			want: []share{{"a", 1, "allocated"}},
		},
		{
			name: "two idle holders, one with a context", replicas: 2,
			pods: []simnode.Pod{sharingPod("a", 0, process("python3", idle, simnode.Compute)), sharingPod("b", 1)},
			want: []share{{"a", 0.5, "allocated"}, {"b", 0.5, "allocated"}}, idle: 1,
		},
		{
			name: "processes that end before they can be identified",
			pods: []simnode.Pod{sharingPod("a", 0, fleeting(process("python3", simnode.Constant(50), simnode.Compute)))},
			want: []share{{"a", 1, ""}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			sc := onH100(tt.replicas, tt.pods, tt.daemons)
			sc.NoTruth = true
			b := benchOf(t, sc, false)
			b.run(600)
			b.balanced()
			page, err := exposition.Parse(strings.NewReader(b.page()))
			if err != nil {
				t.Fatal(err)
			}
			all := page.Sum("gpuledger_gpu_energy_joules_total", nil)
			const energy = "gpuledger_container_energy_joules_total"
			for _, w := range tt.want {
				metric, who := energy, map[string]string{"pod": w.payer}
				if reason, ok := strings.CutPrefix(w.payer, "("); ok {
					metric, who = "gpuledger_unattributed_energy_joules_total", map[string]string{"reason": strings.TrimSuffix(reason, ")")}
				}
				if got := page.Sum(metric, who) / all; math.Abs(got-w.energy) > near {
					t.Errorf("%s is charged %.1f %% of the energy, want %.1f %%", w.payer, 100*got, 100*w.energy)
				}
				if w.method != "" {
					who["method"] = w.method
					if got := page.Sum(metric, who) / all; math.Abs(got-w.energy) > near {
						t.Errorf("%s is charged %.1f %% of the energy by method %s, want all of its charges", w.payer, 100*got, w.method)
					}
				}
			}
			if got := page.Sum("gpuledger_container_idle_energy_joules_total", nil) / all; tt.idle > 0 && math.Abs(got-tt.idle) > near {
				t.Errorf("idle energy is %.1f %%, want %.1f %%", 100*got, 100*tt.idle)
			}
		})
	}
}

// TestModules checks GPUs that share a module. The energy recorded for each GPU must be close to the simulated energy
// of this GPU. The energies of a module's GPUs must add up to the energy of the module.
func TestModules(t *testing.T) {
	b := newBench(t, "gb200-module", false)
	b.run(60)
	b.balanced()
	rows, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	boards := make(map[string]gpu.Millijoules) // simulated energy that the exporter did not record, by serial number of the board
	for _, g := range b.node.Sampler.Latest().GPUs {
		at := slices.IndexFunc(rows, func(row simnode.Truth) bool { return row.Boot >= int64(g.Book.Settled.Boot) })
		truth := rows[at].GPU(g.UUID).Energy - rows[0].GPU(g.UUID).Energy
		if off := float64(g.Book.Energy-truth) / float64(truth); math.Abs(off) > near {
			t.Errorf("the book of %s contains %d mJ, want about %d mJ", g.UUID, g.Book.Energy, truth)
		}
		if g.EnergySource != gpu.EnergyDivided || g.EnergyScope != gpu.ScopeModule {
			t.Errorf("%s: energy source %q, scope %q; want divided, module", g.UUID, g.EnergySource, g.EnergyScope)
		}
		boards[g.Serial] += truth - g.Book.Energy
	}
	for serial, off := range boards {
		if off < 0 || off > 2 { // each of the two GPUs may lose less than a millijoule
			t.Errorf("board %s: %d mJ of the module's energy are missing from the books, want 0 to 2", serial, off)
		}
	}
}

// TestPartitions checks how the energy of an AMD GPU is divided if all of its partitions have the same load. This GPU
// is never idle, so the exporter uses the idle power of an idle GPU on the same node.
func TestPartitions(t *testing.T) {
	b := newBench(t, "mi300x", false)
	b.run(60)
	b.balanced()
	rows, err := simnode.ReadTruth(filepath.Join(b.world.Dir(), "truth.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	g := b.gpus()[7]
	if g.Partitions == nil {
		t.Fatalf("%s has no partitions", g.UUID)
	}
	settled := slices.IndexFunc(rows, func(row simnode.Truth) bool { return row.Boot >= int64(g.Book.Settled.Boot) })
	truth, first := rows[settled].GPU(g.UUID), rows[0].GPU(g.UUID)
	for owner, want := range truth.Since(first) {
		var got gpu.Millijoules
		for i := range g.Book.Accounts {
			if a := &g.Book.Accounts[i]; a.Owner == owner {
				got += a.Energy.Sum()
			}
		}
		off := float64(got-want) / float64(g.Book.Energy)
		if math.Abs(off) > 0.015 {
			t.Errorf("%s is charged %d mJ, want %d mJ: the error is %.1f %% of the GPU's energy", owner.Name, got, want, 100*off)
		}
	}
}

// If replica is negative, the pod holds no GPU.
func sharingPod(name string, replica int, processes ...simnode.Process) simnode.Pod {
	c := simnode.Container{Name: "main", Processes: append([]simnode.Process{{Comm: "sleep"}}, processes...)}
	if replica >= 0 {
		c.Devices = simnode.Parts(0, replica)
	}
	return simnode.Pod{Namespace: "team-" + name, Name: name, QoS: "burstable", Containers: []simnode.Container{c}}
}

// process returns a process that draws 300 W while it keeps the GPU fully busy.
func process(comm string, load simnode.Pattern, kind simnode.Context) simnode.Process {
	return simnode.Process{Comm: comm, Work: []simnode.Work{{Watts: 300, Load: load, Memory: 1 << 30, Context: kind}}}
}

func fleeting(p simnode.Process) simnode.Process {
	p.Lifetime = 300 * time.Millisecond
	return p
}

// The device plugin offers the given number of replicas, or the whole GPU if the number is 0.
func onH100(replicas int, pods []simnode.Pod, daemons []simnode.Process) simnode.Scenario {
	sc := simnode.Scenario{
		Name: "bills", Node: "bills-0", PodsAPI: true, Pods: pods,
		Driver: simnode.Driver{Version: "570.86.15", NVML: "12.570.86.15"},
		Daemons: []simnode.Daemon{
			{Cgroup: "/init.scope", Process: simnode.Process{Comm: "systemd"}},
			{Cgroup: "/system.slice/gpuledger.service", Process: simnode.Process{Comm: "gpuledger"}},
		},
		GPUs: []simnode.GPU{{
			UUID: "GPU-6f1d2c7e-0000-4000-8000-000000000011", Bus: "00000000:1B:00.0", Model: "NVIDIA H100 80GB HBM3",
			Serial: "1653924020911", Floor: 70, Limit: 700, MaxLimit: 700, Memory: 80 << 30,
			Counter: gpu.Millijoules(180_000_000_000), Replicas: replicas,
		}},
	}
	for _, d := range daemons {
		sc.Daemons = append(sc.Daemons, simnode.Daemon{Cgroup: "/system.slice/display.service", Process: d})
	}
	return sc
}
