package simnode_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

// used returns the energy of a GPU after a number of seconds: the energy by pod, the total energy and the idle energy.
func used(t *testing.T, n *simnode.Node, position, seconds int) (pods map[string]gpu.Millijoules, total, idle gpu.Millijoules) {
	t.Helper()
	g := history(t, n)[10*seconds].GPUs[position]
	pods = make(map[string]gpu.Millijoules)
	for _, c := range g.Containers {
		pods[c.Name] += c.Energy
	}
	return pods, g.Energy, g.Idle
}

// The floor of a shared GPU must be divided among its pods by replicas. Each pod must also pay for the energy of its
// processes.
func TestTimeslice(t *testing.T) {
	n := open(t, "timeslice")
	run(t, n, 0, 10*time.Second, time.Second)
	const floor = 68 * 10_000 // energy of the floor in 10 s, in mJ
	pods, total, idle := used(t, n, 0, 10)
	want := map[string]gpu.Millijoules{
		"notebook-ada": 420*25*40 + floor/5,
		"notebook-bob": 610*20*100 + floor/5,
		"tuner":        540*35*100 + floor*2/5,
		"evaluator":    total - 420*25*40 - 610*20*100 - 540*35*100 - floor*4/5,
	}
	if diff := cmp.Diff(want, pods); diff != "" || idle != 0 {
		t.Errorf("first GPU, %d mJ idle (-want +got):\n%s", idle, diff)
	}
	pods, total, _ = used(t, n, 1, 10)
	if diff := cmp.Diff(map[string]gpu.Millijoules{"twin-a": total / 2, "twin-b": total / 2}, pods); diff != "" {
		t.Errorf("second GPU (-want +got):\n%s", diff)
	}
}

// The driver must list the clients of an MPS server separately, and attribute their samples to the server.
func TestMPS(t *testing.T) {
	n := open(t, "mps")
	run(t, n, 0, 10*time.Second, time.Second)
	state := driverState(t, n)
	kinds := make(map[string]int)
	var server string
	for _, p := range state["process"] {
		if kinds[p["kind"]]++; p["kind"] == "compute" {
			server = p["pid"]
		}
	}
	if diff := cmp.Diff(map[string]int{"compute": 1, "mps": 3}, kinds); diff != "" {
		t.Errorf("processes by kind (-want +got):\n%s", diff)
	}
	if len(state["sample"]) == 0 {
		t.Error("the driver has no samples")
	}
	for _, s := range state["sample"] {
		if s["pid"] != server {
			t.Errorf("sample %v, want the server %s", s, server)
		}
	}
	pods, total, _ := used(t, n, 0, 10)
	if daemon := pods["nvidia-device-plugin-mps-control-daemon-9qzwt"]; daemon != 0 {
		t.Errorf("the control daemon used %d mJ, want 0", daemon)
	}
	const floor = 68 * 10_000 // energy of the floor in 10 s, in mJ
	if got, want := pods["rerank-0"], gpu.Millijoules(610*40*60+floor/2); got != want {
		t.Errorf("rerank-0 used %d mJ of %d mJ, want %d mJ", got, total, want)
	}
}

// Two pods with one claim must both hold its devices. A claim with admin access must hold no device.
func TestDRA(t *testing.T) {
	n := open(t, "dra")
	run(t, n, 0, 10*time.Second, time.Second)
	floor := func(position int) gpu.Millijoules { return gpu.Millijoules(68+position*3%7) * 10_000 }
	pods, _, _ := used(t, n, 1, 10)
	want := map[string]gpu.Millijoules{"left-0": 450*30*100 + floor(1)/2, "right-0": 520*55*100 + floor(1)/2}
	if diff := cmp.Diff(want, pods); diff != "" {
		t.Errorf("GPU of two pods (-want +got):\n%s", diff)
	}
	pods, _, _ = used(t, n, 0, 10)
	if diff := cmp.Diff(map[string]gpu.Millijoules{"trainer-0": 570*95*100 + floor(0)}, pods); diff != "" {
		t.Errorf("GPU with admin access (-want +got):\n%s", diff)
	}
}

// The holder of a GPU must pay for the floor, regardless of the processes that use the GPU.
func TestHog(t *testing.T) {
	n := open(t, "hog")
	run(t, n, 0, 10*time.Second, time.Second)
	pods, _, idle := used(t, n, 0, 10)
	want := map[string]gpu.Millijoules{"victim-0": 68 * 10_000, "hog-0": 430 * 70 * 100}
	if diff := cmp.Diff(want, pods); diff != "" || idle != 0 {
		t.Errorf("GPU of the victim, %d mJ idle (-want +got):\n%s", idle, diff)
	}
	pods, total, idle := used(t, n, 2, 10)
	if diff := cmp.Diff(map[string]gpu.Millijoules{"forgotten-0": total}, pods); diff != "" || idle != 0 {
		t.Errorf("forgotten GPU, %d mJ idle (-want +got):\n%s", idle, diff)
	}
}
