package main

import (
	"fmt"
	"strconv"
)

// place is the place of a GPU.
type place struct{ node, slot int }

// places returns the places of a GPU before and after the day on which it is moved. One GPU in a
// hundred swaps places with the GPU half a fleet away; the others are never moved.
func (f *fleet) places(gpu int) (before, after place, moved int) {
	at := func(g int) place { return place{g / gpusPerNode, g % gpusPerNode} }
	before, after, moved = at(gpu), at(gpu), f.days
	half := f.gpus / 2
	if pair := gpu % half; pair%100 == 0 {
		after, moved = at((gpu+half)%f.gpus), f.days-1-pair/100%(f.days-1)
	}
	return before, after, moved
}

// clusters is the number of clusters.
var clusters = 4

func cluster(node int) string  { return "cluster-" + strconv.Itoa(node%clusters) }
func nodeName(node int) string { return fmt.Sprintf("node-%04d", node) }
func chassis(node int) string  { return fmt.Sprintf("1820900%06d", node/9) }
func serial(gpu int) string    { return fmt.Sprintf("16539%08d", gpu) }
func uuid(gpu int) string {
	return fmt.Sprintf("GPU-%08x-4c1f-41ef-9d0a-a088c2aa0117", gpu*2654435761%(1<<32))
}

// namespace and workload return the namespace and the workload of the pod that a node runs on a
// day.
func namespace(node int) string     { return "team-" + strconv.Itoa(node%40) }
func workload(node, day int) string { return "train-" + strconv.Itoa((node*7+day)%10) }
func podUID(node, day int) string {
	return fmt.Sprintf("%08x-%04x-4000-a000-%012x", node*40503+day, day, node)
}

// counted returns the first day on which a node has counters.
func (f *fleet) counted(node int) int {
	if node%10 == 0 {
		return 0
	}
	return max(0, f.days-f.counters)
}

func (b *block) addGPU(gpu int) {
	before, after, moved := b.places(gpu)
	hours := shape{kind: "hour", curve: gpu % b.curves, to: b.days * day, every: 15}
	for _, of := range []string{"energy", "unattributed_energy"} {
		b.add("gpuledger:board_"+of+"_joules:increase1h", hours, "cluster", cluster(before.node), "UUID", uuid(gpu), "serial", serial(gpu))
	}
	b.add("gpuledger:gpu_model:present1h", shape{kind: "one", to: b.days * day, every: 15}, "cluster", cluster(before.node), "UUID", uuid(gpu), "model", model)
	for _, stay := range []struct {
		place
		from, to int
	}{{before, 0, moved}, {after, moved, b.days}} {
		n := stay.node
		labels := []string{
			"cluster", cluster(n), "node", nodeName(n), "system_uuid", fmt.Sprintf("7b0e5c1e-4c1f-11ef-9d0a-%012x", n),
			"UUID", uuid(gpu), "serial", serial(gpu), "chassis_serial", chassis(n), "chassis_slot", strconv.Itoa(n % 9),
			"tray_index", strconv.Itoa(n % 9), "pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", 0x1b+stay.slot), "model", model,
		}
		from, to := stay.from*day, stay.to*day
		scraped := append([]string{"instance", nodeName(n), "job", "gpuledger-record"}, labels...)
		b.add("gpuledger_placement_info", shape{kind: "one", from: from, to: to, every: 1}, scraped...)
		b.add("gpuledger:placement_info:present1h", shape{kind: "one", from: from, to: to, every: 60}, labels...)
		board := []string{"cluster", cluster(n), "node", nodeName(n), "UUID", uuid(gpu), "serial", serial(gpu), "instance", nodeName(n), "job", "gpuledger-record"}
		counted := max(from, b.counted(n)*day)
		b.addBoard(gpu, counted, to, board)
		for d := max(stay.from, b.first, b.counted(n)); d < min(stay.to, b.last); d++ {
			b.addAllocation(gpu, n, d)
		}
		for d := max(stay.from, b.first); d < min(stay.to, b.last); d++ {
			b.addHours(gpu, n, d)
		}
	}
}

func (b *block) addBoard(gpu, from, to int, board []string) {
	constant := shape{kind: "one", from: from, to: to, every: 1}
	with := func(labels ...string) []string { return append(labels, board...) }
	b.add("gpuledger_board_energy_joules_total", shape{kind: "board", curve: gpu % b.curves, from: from, to: to, every: 1}, board...)
	for _, reason := range []string{"gap", "host", "idle", "unknown", "unmapped"} {
		b.add("gpuledger_board_unattributed_energy_joules_total", constant, with("reason", reason)...)
	}
	b.add("gpuledger_board_energy_source_info", constant, with("source", "counter", "scope", "gpu")...)
	for _, name := range []string{
		"energy_resets_total", "losses_total", "created_timestamp_seconds", "uncounted_energy_bound_joules_total", "estimated_energy_joules_total",
		"pcie_replays_total", "nvlink_errors_total", "thermal_throttled_seconds_total", "power_brake_throttled_seconds_total", "low_memory_banks",
	} {
		b.add("gpuledger_board_"+name, constant, board...)
	}
	for _, kind := range []string{"correctable", "uncorrectable"} {
		b.add("gpuledger_board_remapped_rows_total", constant, with("error", kind)...)
		for _, memory := range []string{"dram", "sram"} {
			b.add("gpuledger_board_ecc_errors_total", constant, with("error", kind, "memory", memory)...)
		}
	}
	b.add("gpuledger_board_recovery_action_info", constant, with("action", "none")...)
}

func (b *block) addAllocation(gpu, node, d int) {
	from, to := d*day, (d+1)*day
	pod := []string{
		"cluster", cluster(node), "node", nodeName(node), "UUID", uuid(gpu), "instance", nodeName(node),
		"namespace", namespace(node), "pod", workload(node, d) + "-" + strconv.Itoa(node), "pod_uid", podUID(node, d),
	}
	record := append([]string{"serial", serial(gpu), "chassis_serial", chassis(node), "job", "gpuledger-record"}, pod...)
	of := func(kind string, curve int) shape {
		return shape{kind: kind, curve: (gpu + curve) % b.curves, from: from, to: to, every: 1}
	}
	b.add("gpuledger_allocation_energy_joules_total", of("joules", 0), record...)
	b.add("gpuledger_allocation_exclusive_energy_joules_total", of("joules", 0), record...)
	b.add("gpuledger_allocation_idle_energy_joules_total", of("joules", 1), record...)
	b.add("gpuledger_allocation_seconds_total", of("seconds", 0), record...)
	b.add("gpuledger_allocation_gpu_seconds_total", of("seconds", 0), record...)
	b.add("gpuledger_allocation_active_seconds_total", of("seconds", 1), record...)
	b.add("gpuledger_allocation_busy_seconds_total", of("seconds", 1), record...)
	b.add("gpuledger_allocation_estimated_energy_joules_total", of("one", 0), record...)
	b.add("gpuledger_allocation_created_timestamp_seconds", of("one", 0), record...)
}

// addHours adds the rules of the pod of a day on a GPU.
func (b *block) addHours(gpu, node, d int) {
	for i, of := range hourly {
		b.add("gpuledger:allocation_"+of+":increase1h", shape{kind: "hour", curve: (gpu + i) % b.curves, from: d*day + 60, to: (d+1)*day + 60, every: 15},
			"cluster", cluster(node), "UUID", uuid(gpu), "serial", serial(gpu),
			"namespace", namespace(node), "pod", workload(node, d)+"-"+strconv.Itoa(node), "pod_uid", podUID(node, d))
	}
}

// hourly contains the amounts for which rules record hours.
var hourly = []string{"energy_joules", "idle_energy_joules", "exclusive_energy_joules", "gpu_seconds", "active_seconds"}

// model is the model of all GPUs.
const model = "NVIDIA H100 80GB HBM3"

// addPods adds the reconciler's series of the pods.
func (b *block) addPods(node int) {
	for d := b.first; d < b.last; d++ {
		one := shape{kind: "one", from: d * day, to: (d + 1) * day, every: 1}
		name := workload(node, d)
		pod := []string{
			"cluster", cluster(node), "namespace", namespace(node), "pod", name + "-" + strconv.Itoa(node), "pod_uid", podUID(node, d),
		}
		b.add("gpuledger_pod_info", one, append([]string{
			"workload_kind", "Job", "workload_name", name, "workload_uid", namespace(node) + name, "node", nodeName(node),
		}, pod...)...)
		b.add("gpuledger_pod_labels", one, append([]string{"label_team", "team-" + strconv.Itoa(node%8)}, pod...)...)
	}
}

// addRules adds the values of the rules for every full hour.
func (b *block) addRules() {
	always := shape{kind: "hour", to: b.days * day, every: 15}
	for c := range clusters {
		always.curve++
		b.add("gpuledger:fleet_energy_joules:increase1h", always, "cluster", cluster(c), "model", model)
		b.add("gpuledger:fleet_gpus:present1h", always, "cluster", cluster(c), "model", model)
		b.add("gpuledger:fleet_gpus:free1h", always, "cluster", cluster(c), "model", model)
	}
	for ns := range 40 {
		always.curve++
		who := []string{"cluster", cluster(ns), "namespace", namespace(ns)}
		for _, of := range hourly {
			b.add("gpuledger:namespace_"+of+":increase1h", always, append([]string{"model", model}, who...)...)
		}
		b.add("kube_namespace_labels", shape{kind: "one", to: b.days * day, every: 1}, append([]string{"label_team", "team-" + strconv.Itoa(ns%8)}, who...)...)
		for w := range 10 {
			always.curve++
			name := "train-" + strconv.Itoa(w)
			b.add("gpuledger:workload_labels:present1h", shape{kind: "one", to: b.days * day, every: 60}, append([]string{
				"workload_uid", namespace(ns) + name, "label_team", "team-" + strconv.Itoa(ns%8),
			}, who...)...)
			for _, of := range hourly {
				b.add("gpuledger:workload_"+of+":increase1h", always, append([]string{
					"model", model, "workload_kind", "Job", "workload_name", name, "workload_uid", namespace(ns) + name,
				}, who...)...)
			}
		}
	}
}
