package simnode_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// The floor of a GPU must be divided among its instances by slices. The floor of free slices must be idle.
func TestMIGFloor(t *testing.T) {
	n := open(t, "mig")
	run(t, n, 0, 14*time.Second, time.Second)
	const slice = 68 * 14_000 / 7 // energy of 14 s in mJ
	pods, total, idle := used(t, n, 0, 14)
	want := map[string]gpu.Millijoules{
		"pair-0":     260*45*140 + 230*50*100 + 3*slice,
		"small-0":    150*70*140 + 2*slice,
		"reserved-0": slice,
	}
	// The floor of each step is divided into whole millijoules, so there is a rounding error.
	for pod, e := range want {
		if off := pods[pod] - e; off < -140 || off > 140 {
			t.Errorf("%s used %d mJ, want %d", pod, pods[pod], e)
		}
	}
	if off := idle - slice; off < -140 || off > 140 || len(pods) != len(want) {
		t.Errorf("%d mJ of %d mJ idle, want %d; pods %v", idle, total, slice, pods)
	}
}

// The driver must report a MIG device for each instance, and the instance on which each process runs.
func TestMIGDevices(t *testing.T) {
	n := open(t, "mig")
	run(t, n, 0, 10*time.Second, time.Second)
	state := driverState(t, n)
	divided, whole := state["gpu"][0], state["gpu"][1]
	if _, ok := divided["utilization"]; ok || divided["mig"] != "1" || divided["mig_slices"] != "7" || divided["samples"] != "0" {
		t.Errorf("divided GPU: %v", divided)
	}
	if _, ok := whole["mig_slices"]; ok || whole["mig"] != "0" || whole["utilization"] != "96" {
		t.Errorf("whole GPU: %v", whole)
	}
	if divided["gpm"] != "1" || state["driver"][0]["time"] != "10000000000" {
		t.Errorf("divided GPU: %v, driver: %v", divided, state["driver"])
	}
	var busy []string
	for _, i := range state["instance"] {
		busy = append(busy, i["sm_busy"])
		delete(i, "sm_busy")
	}
	// The busy times are ten seconds at 45 % plus six seconds at 50 %, then ten seconds at 70 %, and then 0.
	if diff := cmp.Diff([]string{"7500000000", "7000000000", "0"}, busy); diff != "" {
		t.Errorf("busy time of instances (-want +got):\n%s", diff)
	}
	want := []fields{
		instance(divided, state["instance"][0], "2", "3g.40gb", "3", "9", "0", "4", "40320"),
		instance(divided, state["instance"][1], "3", "2g.20gb", "2", "14", "4", "2", "20096"),
		instance(divided, state["instance"][2], "9", "1g.10gb", "1", "19", "6", "1", "9984"),
	}
	if diff := cmp.Diff(want, state["instance"]); diff != "" {
		t.Errorf("instances (-want +got):\n%s", diff)
	}
	places := make(map[string]int)
	for _, p := range state["process"] {
		places[p["gi"]+"/"+p["ci"]]++
	}
	if diff := cmp.Diff(map[string]int{"2/0": 2, "3/0": 1, "/": 1}, places); diff != "" {
		t.Errorf("processes by instance (-want +got):\n%s", diff)
	}
	for _, s := range state["sample"] {
		if s["gpu"] == divided["uuid"] {
			t.Fatalf("the GPU in MIG mode has the sample %v, want none", s)
		}
	}
}

// number is the id of the profile.
func instance(g, got fields, id, profile, slices, number, start, size, memory string) fields {
	return fields{
		"gpu": g["uuid"], "uuid": got["uuid"], "gi": id, "ci": "0", "name": g["name"] + " MIG " + profile,
		"gi_slices": slices, "ci_slices": slices, "memory_mib": memory, "profile": number, "start": start, "size": size,
	}
}

// After 20 s, a new instance with the same id must replace the second instance, and another pod must replace its pod.
// The first instance must keep its UUID.
func TestMIGInstanceReplaced(t *testing.T) {
	n := open(t, "mig")
	before := driverState(t, n)["instance"]
	run(t, n, 0, 20*time.Second, time.Second)
	whatever := cmpopts.IgnoreMapEntries(func(key, _ string) bool { return key == "sm_busy" })
	if diff := cmp.Diff(before, driverState(t, n)["instance"], whatever); diff != "" {
		t.Errorf("instances (-at the start +after 20 s):\n%s", diff)
	}
	run(t, n, 20*time.Second, 20100*time.Millisecond, 100*time.Millisecond)
	state := driverState(t, n)
	now := byID(t, state["instance"])
	if was, is := before[1], now["3"]; is["uuid"] == was["uuid"] || !strings.HasPrefix(is["uuid"], "MIG-") || is["profile"] != "15" {
		t.Errorf("instance 3 changed from %v to %v", was, is)
	}
	if len(now) != 3 || now["2"]["uuid"] != before[0]["uuid"] {
		t.Errorf("instances %v", now)
	}
	held := devices(t, n)
	if len(held["small-0"]) != 0 || len(held["smaller-0"]) != 1 || !strings.HasPrefix(held["smaller-0"][0], "nvidia.com/mig-1g.20gb MIG#") {
		t.Errorf("pods hold %v", held)
	}
	for _, p := range state["process"] {
		if _, there := now[p["gi"]]; p["gi"] != "" && !there {
			t.Errorf("instance of process %v does not exist", p)
		}
	}
	run(t, n, 20100*time.Millisecond, 27*time.Second, 100*time.Millisecond)
	if pods, _, _ := used(t, n, 0, 27); pods["small-0"] == 0 || pods["smaller-0"] < 70*85*70 {
		t.Errorf("pods used %v", pods)
	}
}

// The driver of an A100 does not measure the activity of instances, but DCGM's host engine does.
func TestMIGWithoutGPM(t *testing.T) {
	n := open(t, "mig-a100")
	run(t, n, 0, time.Second, time.Second)
	state := driverState(t, n)
	if _, ok := state["gpu"][0]["gpm"]; ok || len(state["instance"]) != 2 {
		t.Errorf("GPU %v, instances %v", state["gpu"], state["instance"])
	}
	for _, i := range state["instance"] {
		if _, ok := i["sm_busy"]; !ok {
			t.Errorf("instance %v", i)
		}
	}
}

func byID(t *testing.T, instances []fields) map[string]fields {
	t.Helper()
	out := make(map[string]fields)
	for _, i := range instances {
		if _, twice := out[i["gi"]]; twice {
			t.Errorf("two instances have the id %s", i["gi"])
		}
		out[i["gi"]] = i
	}
	return out
}
