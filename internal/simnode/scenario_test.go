package simnode_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// Two pods are replaced every second. The kubelet's list, the log links, /proc and the driver's process lists must show
// the change.
func TestChurn(t *testing.T) {
	n := open(t, "churn")
	kubelet := dial(t, n)
	seen := make(map[string]bool)
	var before []string
	for second := range 5 {
		d := time.Duration(second)*time.Second + 100*time.Millisecond
		run(t, n, d-100*time.Millisecond, d, 100*time.Millisecond)
		held := holders(t, kubelet)
		var pids []string
		for pod := range held {
			if strings.HasPrefix(pod, "short-") {
				if seen[pod] {
					t.Errorf("pod %s was not replaced in second %d", pod, second)
				}
				seen[pod] = true
			}
		}
		for _, p := range driverState(t, n)["process"][:2] {
			pids = append(pids, p["pid"])
			if _, err := os.Stat(filepath.Join(n.Dir(), "proc", p["pid"], "stat")); err != nil {
				t.Error(err)
			}
			if slices.Contains(before, p["pid"]) {
				t.Errorf("process %s still exists after its pod has ended", p["pid"])
			}
		}
		before = pids
		if links, err := os.ReadDir(filepath.Join(n.Dir(), "log/containers")); err != nil || len(links) != 6 {
			t.Errorf("%d log links, %v, want 6", len(links), err)
		}
		run(t, n, d, time.Duration(second+1)*time.Second, 100*time.Millisecond)
	}
	if len(seen) != 10 {
		t.Errorf("%d short pods in 5 seconds, want 10: %v", len(seen), seen)
	}
}

// During its pause, a pod must be missing. Then another pod must replace it.
func TestPause(t *testing.T) {
	sc, err := simnode.Lookup("churn")
	if err != nil {
		t.Fatal(err)
	}
	for i := range sc.Pods {
		if sc.Pods[i].Lifetime > 0 {
			sc.Pods[i].Lifetime, sc.Pods[i].Pause = 300*time.Millisecond, 200*time.Millisecond
		}
	}
	n := openScenario(t, sc)
	kubelet := dial(t, n)
	var got []string
	for d := 100 * time.Millisecond; d <= 1100*time.Millisecond; d += 100 * time.Millisecond {
		run(t, n, d-100*time.Millisecond, d, 100*time.Millisecond)
		there := "-"
		for pod := range holders(t, kubelet) {
			if number, ok := strings.CutPrefix(pod, "short-a-"); ok {
				there = number
			}
		}
		got = append(got, there)
	}
	if want := "1 1 1 - - 2 2 2 - - 3"; strings.Join(got, " ") != want {
		t.Errorf("number of the running pod in each 100 ms: %v, want %s", got, want)
	}
}

// A stopped kubelet must have no socket. A restarted kubelet must create a new socket, and must list the pods that
// started while it was stopped.
func TestKubeletRestart(t *testing.T) {
	sc, err := simnode.Lookup("churn")
	if err != nil {
		t.Fatal(err)
	}
	sc.Events = []simnode.Event{{At: time.Second, Do: simnode.StopKubelet}, {At: 3 * time.Second, Do: simnode.StartKubelet}}
	n := openScenario(t, sc)
	before := holders(t, dial(t, n))
	run(t, n, 0, 2*time.Second, 100*time.Millisecond)
	_, socket, _ := strings.Cut(flagOf(n, "--kubelet.pod-resources-socket="), "=")
	if _, err := os.Stat(socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket of a stopped kubelet: %v, want it missing", err)
	}
	run(t, n, 2*time.Second, 4*time.Second, 100*time.Millisecond)
	after := holders(t, dial(t, n))
	if before["short-a-1"] == nil || after["short-a-1"] != nil || after["chat-0"] == nil {
		t.Errorf("pods before the restart %v, after it %v", before, after)
	}
}

// A GPU falls off the bus. A reload of the driver must then remove it.
func TestLost(t *testing.T) {
	n := open(t, "lost")
	dead := driverState(t, n)["gpu"][2]
	run(t, n, 0, 6100*time.Millisecond, 100*time.Millisecond)
	state := driverState(t, n)
	if state["gpu"][2]["lost"] != "1" || len(state["gpu"]) != 8 {
		t.Errorf("GPU at 6.1 s: %v, want it lost", state["gpu"][2])
	}
	if diff := cmp.Diff([]fields{{"gpu": dead["uuid"], "seq": "1", "code": "79"}}, state["xid"]); diff != "" {
		t.Errorf("XIDs (-want +got):\n%s", diff)
	}
	run(t, n, 6100*time.Millisecond, 12100*time.Millisecond, 100*time.Millisecond)
	if state = driverState(t, n); state["driver"][0]["loaded"] != "0" {
		t.Errorf("driver at 12.1 s: %v, want it not loaded", state["driver"])
	}
	run(t, n, 12100*time.Millisecond, 13100*time.Millisecond, 100*time.Millisecond)
	checkReloaded(t, driverState(t, n), dead["uuid"])
	entry := strings.ToLower(strings.TrimPrefix(dead["bus"], "0000"))
	if _, err := os.Stat(filepath.Join(n.Dir(), "sys/bus/pci/devices", entry)); err != nil {
		t.Error(err)
	}
	if g := history(t, n)[131].GPU(dead["uuid"]); g.Counter != nil || g.Energy == 0 {
		t.Errorf("the truth of the lost GPU is %+v", g)
	}
}

// checkReloaded checks that the driver has renumbered the GPUs and that its counters started at zero again.
func checkReloaded(t *testing.T, state map[string][]fields, dead string) {
	t.Helper()
	if d := state["driver"][0]; d["loaded"] != "1" || d["generation"] != "2" || len(state["gpu"]) != 7 {
		t.Errorf("driver %v with %d GPUs", d, len(state["gpu"]))
	}
	for i, g := range state["gpu"] {
		index := string(rune('0' + i))
		if g["index"] != index || g["minor"] != index || g["uuid"] == dead {
			t.Errorf("GPU %d is %v", i, g)
		}
		if e := number(t, g["energy"]); e > 70_000 {
			t.Errorf("%s: counter is %d mJ, 0.1 s after it began", g["uuid"], e)
		}
	}
}

func TestLookup(t *testing.T) {
	_, err := simnode.Lookup("dgx")
	if err == nil || !strings.Contains(err.Error(), "dgx-h100 gb200 gb200-module idle churn jobs lost") {
		t.Errorf("Lookup of an unknown scenario: %v", err)
	}
}

func TestOpenRefuses(t *testing.T) {
	good, err := simnode.Lookup("idle")
	if err != nil {
		t.Fatal(err)
	}
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "precious"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	busy := []simnode.Work{{GPU: 0, Load: simnode.Constant(98)}}
	with := func(p simnode.Process) simnode.Scenario {
		sc := good
		sc.Daemons = append(slices.Clone(sc.Daemons), simnode.Daemon{Cgroup: "/", Process: p})
		return sc
	}
	divided, err := simnode.Lookup("mig")
	if err != nil {
		t.Fatal(err)
	}
	holding := func(sc simnode.Scenario, c simnode.Container) simnode.Scenario {
		sc.Pods = []simnode.Pod{{Namespace: "ns", Name: "pod", Containers: []simnode.Container{c}}}
		return sc
	}
	tests := []struct {
		name, dir string
		scenario  simnode.Scenario
		want      string
	}{
		{"directory in use", full, good, "is not empty"},
		{"long directory", filepath.Join(t.TempDir(), strings.Repeat("x", 100)), good, "choose a shorter directory"},
		{"too busy", t.TempDir(), with(simnode.Process{Comm: "x", Work: busy}), "GPU 0 can make it 101 % busy"},
		{"no such GPU", t.TempDir(), with(simnode.Process{Comm: "x", Work: []simnode.Work{{GPU: 8}}}), "no GPU 8"},
		{"long name", t.TempDir(), with(simnode.Process{Comm: "sixteen-bytes---"}), "longer than 15 bytes"},
		{"no such GPU to hold", t.TempDir(), holding(good, simnode.Container{Devices: simnode.GPUs(8)}), "pod ns/pod: container : no GPU 8"},
		{"no such replica", t.TempDir(), holding(good, simnode.Container{Devices: simnode.Parts(0, 1)}), "GPU 0 has no part 1"},
		{"no such claim", t.TempDir(), holding(good, simnode.Container{Claims: []int{0}}), "claim 0 does not exist"},
		{"instance ends too early", t.TempDir(), holding(divided, simnode.Container{Devices: simnode.Parts(0, 1)}), "instance 1 does not exist during the whole life of the pod"},
		{"instance begins too late", t.TempDir(), holding(divided, simnode.Container{Devices: simnode.Parts(0, 3)}), "instance 3 does not exist during the whole life of the pod"},
		{"no PID 1", t.TempDir(), simnode.Scenario{Name: "none"}, "PID 1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, err := simnode.Open(tt.dir, tt.scenario, start)
			if err == nil {
				n.Close()
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open = %v, want an error with %q", err, tt.want)
			}
		})
	}
}
