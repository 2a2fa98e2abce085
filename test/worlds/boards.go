package worlds

import "time"

// Rollup is the result of the hourly recording rule for the metric Placement.
const (
	Daily     = 24 * time.Hour
	Placement = "gpuledger_placement_info"
	Rollup    = "gpuledger:placement_info:present1h"
)

func place(node, machine, uuid, serial, chassis, slot string) map[string]string {
	return map[string]string{
		"node": node, "system_uuid": machine, "UUID": uuid, "serial": serial, "chassis_serial": chassis, "chassis_slot": slot,
		"pci_bus_id": "00000000:1B:0" + uuid[len("GPU-"):] + ".0", "model": "NVIDIA H100 80GB HBM3",
	}
}

// These are labels of boards in slots. The name of a variable begins with the serial number of the board. If necessary,
// the letter of the node or of the GPU follows.
var (
	S1a = place("a", "machine-a", "GPU-1", "S1", "C1", "1")
	S1b = place("b", "machine-b", "GPU-1", "S1", "C2", "3")
	S2  = place("a", "machine-a", "GPU-2", "S2", "C1", "2")
	S3a = place("b", "machine-b", "GPU-3a", "S3", "C2", "1")
	S3b = place("b", "machine-b", "GPU-3b", "S3", "C2", "1")
	S4  = place("b", "machine-b", "GPU-4", "S4", "C2", "4")
	S5  = place("a", "machine-a", "GPU-5", "S5", "C1", "4")
	S6  = place("a", "machine-a", "GPU-6", "S6", "C1", "5")
	S7  = place("a", "machine-a", "GPU-7", "", "C1", "6")
	S8  = place("c", "machine-c", "GPU-8", "S8", "C1", "1")
)

// Boards returns ten days of scrapes. Boards move, arrive and are lost, and nodes get new names. Two replicas of
// Prometheus scrape some of the boards. There are scrape gaps, and some boards have pods.
func Boards() *History {
	const end = 10*Daily + time.Hour
	h := New(time.Minute)
	put := func(labels map[string]string, from, to time.Duration) {
		h.Constant(Series(Placement, labels), from, to, 1)
		counter := Parse(Some(labels, "node", "UUID", "serial", "chassis_serial", "chassis_slot", "prometheus_replica"))
		h.Linear(Series(BoardEnergy, counter), from, to, 0, 600)
	}
	put(S1a, 0, 3*Daily)
	put(S1b, 3*Daily+2*time.Hour, end)
	put(S2, 0, end)
	for _, replica := range []string{"1", "2"} { // replicas of Prometheus
		put(With(S3a, "prometheus_replica", replica), 0, end)
		put(With(S3b, "prometheus_replica", replica), 0, end)
	}
	put(S4, 0, 2*Daily)
	put(S5, 9*Daily+12*time.Hour, end)
	put(S6, 0, 9*Daily+6*time.Hour)
	put(S7, 0, end)
	put(S8, 0, 6*Daily)
	put(With(S8, "node", "c-renamed"), 6*Daily, end)
	h.charge(end)
	h.Forget(`node="a"`, 5*Daily, 5*Daily+20*time.Minute)
	h.Forget(`node="a"`, 7*Daily, 7*Daily+3*time.Minute)
	return h
}

// The labels of pods include the labels of their boards.
var (
	Trainer = With(S1a, "namespace", "alpha", "pod", "train", "pod_uid", "u1")
	Server1 = With(S1b, "namespace", "beta", "pod", "serve", "pod_uid", "u2")
	old     = With(S2, "namespace", "beta", "pod", "old", "pod_uid", "u3")
)

func allocation(metric string, labels map[string]string) string {
	return Series(metric, Parse(Some(labels, "node", "UUID", "serial", "chassis_serial", "namespace", "pod", "pod_uid")))
}

// One pod has no samples for two days.
func (h *History) charge(end time.Duration) {
	for _, p := range []struct {
		labels   map[string]string
		from, to time.Duration
	}{{Trainer, 0, 2 * Daily}, {Server1, 4 * Daily, end}, {old, 0, 4 * Daily}, {old, 6 * Daily, end}} {
		h.Linear(allocation(AllocationEnergy, p.labels), p.from, p.to, 0, 100)
	}
}
