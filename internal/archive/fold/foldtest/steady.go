package foldtest

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Steady simulates a fleet of any size and age. It computes the samples from the time, so it keeps no samples in
// memory. Each node has eight GPUs, runs one pod a day on all of them, and restarts every 30 days. Each node is scraped
// at its own second of the minute.
type Steady struct {
	GPUs int
	// Start is the midnight before the first sample, and End is a time after the last sample.
	Start, End time.Time
}

const (
	steadyCluster = "cluster-0"
	gpusPerNode   = 8
	minutesOfDay  = 24 * 60
	daysUp        = 30 // days between two restarts of a node
)

type steady struct {
	labels fold.Labels
	node   int
	// first and last are the minutes of the first and last sample, counted from Steady.Start.
	first, last int
	// value returns the value at a minute, in thousandths.
	value func(minute int) int64
}

func constant(value int64) func(int) int64 { return func(int) int64 { return value } }

// meter returns the energy of a GPU in millijoules. This counter never restarts. The power is about 550 W.
func meter(gpu, minute int) int64 {
	x := uint64(gpu+1)*0x9e3779b97f4a7c15 ^ uint64(minute+1)*0xbf58476d1ce4e5b9
	x = (x ^ x>>31) * 0x94d049bb133111eb
	return int64(minute)*33_000_000 + int64((x^x>>29)%20_000_000)
}

// restarted returns the minute of a node's last restart. Node 2 restarts at the start of the simulation. Node 1
// restarts a day later.
func restarted(node, minute int) int {
	day := minute / minutesOfDay
	return (day - (day+node+daysUp-2)%daysUp) * minutesOfDay
}

// Energy returns the increase of all scraped counters between two full hours.
func (s Steady) Energy(from, until time.Time) (millijoules int64) {
	first, last := s.minute(from), s.minute(until)-1
	for gpu := range s.GPUs {
		millijoules += meter(gpu, last) - meter(gpu, first-1)
		for at := restarted(gpu/gpusPerNode, last); at >= first; at -= daysUp * minutesOfDay {
			millijoules -= meter(gpu, at) - meter(gpu, at-1) // no scrape contains this energy
		}
	}
	return millijoules
}

func (s Steady) minute(at time.Time) int { return int(at.Sub(s.Start) / time.Minute) }

func (s Steady) at(node, minute int) int64 {
	return s.Start.UnixMilli() + int64(minute)*60_000 + int64(1+node%58)*1000 + int64(node*37%1000)
}

// each implements [record].
func (s Steady) each(q *query, after, until time.Time, f func(fold.Labels, []fold.Sample)) {
	first, last := max(s.minute(after)-1, 0), min(s.minute(until), s.minute(s.End)-1)
	yield := func(x *steady) {
		x.first, x.last = max(x.first, first), min(x.last, last)
		for x.first <= x.last && s.at(x.node, x.first) <= after.UnixMilli() {
			x.first++
		}
		for x.first <= x.last && s.at(x.node, x.last) > until.UnixMilli() {
			x.last--
		}
		if x.first > x.last || !q.selects(x.labels) {
			return
		}
		if q.last || q.group || q.count {
			x.first = x.last
		}
		samples := make([]fold.Sample, 0, x.last-x.first+1)
		for minute := x.first; minute <= x.last; minute++ {
			samples = append(samples, fold.Sample{Time: s.at(x.node, minute), Value: float64(x.value(minute)) / 1000})
		}
		f(x.labels, samples)
	}
	for node := range (s.GPUs + gpusPerNode - 1) / gpusPerNode {
		s.ofNode(q, node, first, last, yield)
	}
}

func (s Steady) ofNode(q *query, node, first, last int, f func(*steady)) {
	name := fmt.Sprintf("node-%04d", node)
	target := []string{"cluster", steadyCluster, "node", name, "instance", name, "job", "gpuledger-record"}
	if q.may("__name__", "up") {
		f(&steady{labels: Labels("up", target...), node: node, last: last, value: constant(1000)})
	}
	for day := first / minutesOfDay; day <= last/minutesOfDay; day++ {
		s.ofPod(q, node, day, f)
	}
	for gpu := node * gpusPerNode; gpu < min((node+1)*gpusPerNode, s.GPUs); gpu++ {
		uuid := fmt.Sprintf("GPU-%08x-4c1f-41ef-9d0a-a088c2aa0117", uint32(gpu*2654435761))
		if !q.may("UUID", uuid) {
			continue
		}
		target := append(slices.Clone(target), "UUID", uuid, "serial", fmt.Sprintf("16539%08d", gpu))
		s.ofBoard(q, node, gpu, last, target, f)
		for day := first / minutesOfDay; day <= last/minutesOfDay; day++ {
			s.ofAllocation(q, node, gpu, day, append(slices.Clone(target), podLabels(node, day)...), f)
		}
	}
}

func podLabels(node, day int) []string {
	return []string{
		"namespace", "team-" + strconv.Itoa(node%40), "pod", fmt.Sprintf("train-%d-%d", (node*7+day)%10, node),
		"pod_uid", fmt.Sprintf("%08x-%04x-4000-a000-%012x", node*40503+day, day, node),
	}
}

func (s Steady) ofPod(q *query, node, day int, f func(*steady)) {
	if !q.may("__name__", "gpuledger_pod_info") && !q.may("__name__", "gpuledger_pod_labels") {
		return
	}
	labels := append([]string{"cluster", steadyCluster}, podLabels(node, day)...)
	workload := fmt.Sprintf("train-%d", (node*7+day)%10)
	for _, l := range []fold.Labels{
		Labels("gpuledger_pod_info", append([]string{
			"node", fmt.Sprintf("node-%04d", node), "workload_kind", "Job", "workload_name", workload, "workload_uid", labels[3] + workload,
		}, labels...)...),
		Labels("gpuledger_pod_labels", append([]string{"label_team", "team-" + strconv.Itoa(node%8)}, labels...)...),
	} {
		f(&steady{labels: l, node: node, first: day * minutesOfDay, last: (day+1)*minutesOfDay - 1, value: constant(1000)})
	}
}

func (s Steady) ofBoard(q *query, node, gpu, last int, target []string, f func(*steady)) {
	series := func(metric string, value func(int) int64, more ...string) {
		if q.may("__name__", metric) {
			f(&steady{labels: Labels(metric, append(more, target...)...), node: node, last: last, value: value})
		}
	}
	add := func(metric string, value int64, more ...string) { series(metric, constant(value), more...) }
	add("gpuledger_placement_info", 1000, "chassis_serial", fmt.Sprintf("1820900%06d", node/9), "chassis_slot", strconv.Itoa(node%9),
		"tray_index", strconv.Itoa(node%9), "pci_bus_id", fmt.Sprintf("00000000:%02X:00.0", 0x1b+gpu%gpusPerNode), "model", "NVIDIA H100 80GB HBM3",
		"system_uuid", fmt.Sprintf("7b0e5c1e-4c1f-11ef-9d0a-%012x", node))
	series("gpuledger_board_energy_joules_total", func(minute int) int64 { return meter(gpu, minute) - meter(gpu, restarted(node, minute)) })
	series("gpuledger_board_created_timestamp_seconds", func(minute int) int64 { return s.at(node, restarted(node, minute)) - 500 })
	for _, reason := range []string{"gap", "host", "idle", "unknown", "unmapped"} {
		add("gpuledger_board_unattributed_energy_joules_total", 0, "reason", reason)
	}
	add("gpuledger_board_energy_source_info", 1000, "source", "counter", "scope", "gpu")
	add("gpuledger_board_energy_resets_total", 0)
	add("gpuledger_board_uncounted_energy_bound_joules_total", 0)
	add("gpuledger_board_estimated_energy_joules_total", 0)
	add("gpuledger_board_losses_total", 0)
	add("gpuledger_board_remapped_rows_total", 0, "error", "correctable")
	add("gpuledger_board_remapped_rows_total", 0, "error", "uncorrectable")
}

func (s Steady) ofAllocation(q *query, node, gpu, day int, labels []string, f func(*steady)) {
	first, last := day*minutesOfDay, (day+1)*minutesOfDay-1
	energy := func(minute int) int64 { return meter(gpu, minute) - meter(gpu, first) }
	held := func(minute int) int64 { return int64(minute-first) * 60_000 }
	add := func(name string, value func(int) int64) {
		if metric := "gpuledger_allocation_" + name; q.may("__name__", metric) {
			f(&steady{labels: Labels(metric, labels...), node: node, first: first, last: last, value: value})
		}
	}
	add("energy_joules_total", energy)
	add("exclusive_energy_joules_total", energy)
	add("idle_energy_joules_total", func(minute int) int64 { return energy(minute) / 3 })
	add("seconds_total", held)
	add("gpu_seconds_total", held)
	add("active_seconds_total", func(minute int) int64 { return held(minute) * 2 / 3 })
	add("busy_seconds_total", func(minute int) int64 { return held(minute) / 2 })
	add("estimated_energy_joules_total", constant(0))
	add("created_timestamp_seconds", constant(s.at(node, first)-500))
}

// Store returns all samples of the fleet.
func (s Steady) Store() *Store {
	all := NewStore()
	s.each(&query{}, s.Start, s.End, func(labels fold.Labels, samples []fold.Sample) { all.add(labels, samples...) })
	return all
}
