package simnode_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

func TestSampleRing(t *testing.T) {
	n := open(t, "dgx-h100")
	run(t, n, 0, 15*time.Second, 100*time.Millisecond)
	state := driverState(t, n)
	chat, idle := state["gpu"][6]["uuid"], state["gpu"][7]["uuid"]
	var last int64
	pids := make(map[string]int)
	for _, s := range state["sample"] {
		if s["gpu"] == idle {
			t.Errorf("an idle GPU has the sample %v, want none", s)
		}
		if s["gpu"] != chat {
			continue
		}
		at := number(t, s["time"])
		if gap := at - last; last != 0 && (gap < 138_888 || gap > 138_889) {
			t.Errorf("%d µs between samples, want 138889", gap)
		}
		last = at
		pids[s["pid"]]++
	}
	if age := after(15*time.Second).Wall.UnixMicro() - last; age < 0 || age > 138_889 {
		t.Errorf("the newest sample is %d µs old, want at most 138889", age)
	}
	var sum int
	for _, count := range pids {
		sum += count
	}
	if sum != 72 || len(pids) != 2 {
		t.Errorf("samples by process: %v, want 72 of 2 processes", pids)
	}
}

// An idle process must have samples of 0 %.
func TestSamplesFollowActivity(t *testing.T) {
	n := open(t, "dgx-h100")
	run(t, n, 0, 9500*time.Millisecond, 500*time.Millisecond)
	state := driverState(t, n)
	resting := state["gpu"][4]
	if resting["utilization"] != "0" || number(t, resting["power"]) > 80_000 {
		t.Errorf("during the pause, the GPU reports %v", resting)
	}
	busyTime := 0
	for _, s := range state["sample"] {
		switch {
		case s["gpu"] != resting["uuid"]:
		case number(t, s["time"]) > after(8*time.Second).Wall.UnixMicro():
			if s["sm"] != "0" {
				t.Errorf("sample %v during the pause, want zero", s)
			}
		default:
			busyTime++
		}
	}
	if busyTime == 0 {
		t.Error("no samples from before the pause")
	}
}

func TestIdentity(t *testing.T) {
	gpus := driverState(t, open(t, "gb200"))["gpu"]
	want := map[string]string{"chassis": gpus[0]["chassis"], "slot": "15", "tray": "5", "fabric_clique": "1", "fabric_state": "3"}
	serials := make(map[string]int)
	for i, g := range gpus {
		serials[g["serial"]]++
		for key, value := range want {
			if g[key] != value || value == "" {
				t.Errorf("GPU %d: %s is %q, want %q", i, key, g[key], value)
			}
		}
		if module := []string{"2", "1", "4", "3"}[i]; g["module"] != module {
			t.Errorf("GPU %d is module %s, want %s", i, g["module"], module)
		}
		if g["energy"] == g["energy_gpu"] || g["energy"] != g["energy_module"] {
			t.Errorf("GPU %d: the energy counter is not the module's counter: %v", i, g)
		}
	}
	if len(serials) != 2 {
		t.Errorf("serials %v, want 2 of 2 GPUs each", serials)
	}
	h100 := make(map[string]bool)
	for _, g := range driverState(t, open(t, "dgx-h100"))["gpu"] {
		h100[g["serial"]] = true
		if _, ok := g["chassis"]; ok || len(g["serial"]) != 13 {
			t.Errorf("H100 has identity %v, want no chassis and a serial number of 13 digits", g)
		}
	}
	if len(h100) != 8 {
		t.Errorf("%d serial numbers on 8 boards", len(h100))
	}
}

func TestFaults(t *testing.T) {
	n := open(t, "idle")
	err := n.SetFaults(
		simnode.Fault{GPU: "*", Call: "nvmlDeviceGetSerial", Do: "blank"},
		simnode.Fault{GPU: "GPU-1", Call: "*", Do: "delay:250"})
	if err != nil {
		t.Fatal(err)
	}
	want := []fields{
		{"gpu": "*", "call": "nvmlDeviceGetSerial", "do": "blank"},
		{"gpu": "GPU-1", "call": "*", "do": "delay:250"},
	}
	if diff := cmp.Diff(want, driverState(t, n)["fault"]); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
	run(t, n, 0, time.Second, time.Second)
	if got := driverState(t, n)["fault"]; len(got) != 2 {
		t.Errorf("faults after a step: %v, want 2", got)
	}
	if err := n.ClearFaults(); err != nil {
		t.Fatal(err)
	}
	if got := driverState(t, n)["fault"]; got != nil {
		t.Errorf("faults after ClearFaults: %v", got)
	}
}

func number(t *testing.T, s string) int64 {
	t.Helper()
	v, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}
