//go:build e2e

package rules_test

import (
	"maps"
	"time"
)

const (
	daily     = 24 * time.Hour
	placement = "gpuledger_placement_info"
	rollup    = "gpuledger:placement_info:present1h"
)

// place returns the labels of a GPU in a slot.
func place(node, machine, uuid, serial, chassis, slot string) map[string]string {
	return map[string]string{
		"node": node, "system_uuid": machine, "UUID": uuid, "serial": serial, "chassis_serial": chassis, "chassis_slot": slot,
		"pci_bus_id": "00000000:1B:00.0", "model": "NVIDIA H100 80GB HBM3",
	}
}

// with returns the labels with changes; an empty value removes a label.
func with(labels map[string]string, more ...string) map[string]string {
	all := maps.Clone(labels)
	for i := 0; i < len(more); i += 2 {
		all[more[i]] = more[i+1]
	}
	return all
}

// some returns the named labels as promtool writes them.
func some(labels map[string]string, names ...string) string { return by(names...)(labels) }

var (
	s1a = place("a", "machine-a", "GPU-1", "S1", "C1", "1")
	s1b = place("b", "machine-b", "GPU-1", "S1", "C2", "3")
	s2  = place("a", "machine-a", "GPU-2", "S2", "C1", "2")
	s3a = place("b", "machine-b", "GPU-3a", "S3", "C2", "1")
	s3b = place("b", "machine-b", "GPU-3b", "S3", "C2", "1")
	s4  = place("b", "machine-b", "GPU-4", "S4", "C2", "4")
	s5  = place("a", "machine-a", "GPU-5", "S5", "C1", "4")
	s6  = place("a", "machine-a", "GPU-6", "S6", "C1", "5")
	s7  = place("a", "machine-a", "GPU-7", "", "C1", "6")
	s8  = place("c", "machine-c", "GPU-8", "S8", "C1", "1")
)

// boards returns the record of ten days.
func boards() world {
	const end = 10*daily + time.Hour
	h := newHistory(time.Minute)
	put := func(labels map[string]string, from, to time.Duration) {
		h.constant(series(placement, labels), from, to, 1)
	}
	put(s1a, 0, 3*daily)
	put(s1b, 3*daily+2*time.Hour, end)
	put(s2, 0, end)
	for _, replica := range []string{"1", "2"} { // of Prometheus
		put(with(s3a, "prometheus_replica", replica), 0, end)
		put(with(s3b, "prometheus_replica", replica), 0, end)
	}
	put(s4, 0, 2*daily)
	put(s5, 9*daily+12*time.Hour, end)
	put(s6, 0, 9*daily+6*time.Hour)
	put(s7, 0, end)
	put(s8, 0, 6*daily)
	put(with(s8, "node", "c-renamed"), 6*daily, end)
	h.charge(end)
	h.forget(`node="a"`, 5*daily, 5*daily+20*time.Minute)
	h.forget(`node="a"`, 7*daily, 7*daily+3*time.Minute)
	return world{
		name: "boards", history: h, rules: []string{rules("placement.yaml")}, record: true,
		questions: append(whereabouts(), hosted()...),
	}
}

var (
	trainer = with(s1a, "namespace", "alpha", "pod", "train", "pod_uid", "u1")
	server1 = with(s1b, "namespace", "beta", "pod", "serve", "pod_uid", "u2")
	old     = with(s2, "namespace", "beta", "pod", "old", "pod_uid", "u3")
)

func allocation(metric string, labels map[string]string) string {
	return series(metric, parse(some(labels, "node", "UUID", "serial", "chassis_serial", "namespace", "pod", "pod_uid")))
}

// charge adds the energy of pods on the boards. One of them is not scraped for two days.
func (h *history) charge(end time.Duration) {
	for _, p := range []struct {
		labels   map[string]string
		from, to time.Duration
	}{{trainer, 0, 2 * daily}, {server1, 4 * daily, end}, {old, 0, end}} {
		h.linear(allocation(allocationEnergy, p.labels), p.from, p.to, 0, 100)
	}
	h.forget(`pod="old"`, 4*daily, 6*daily)
}

// whereabouts returns the queries about places.
func whereabouts() []question {
	const end = 10 * daily
	stamp := func(at time.Duration) float64 { return float64(began.Add(at).Unix()) }
	ask := func(title string, at time.Duration, want map[string]float64) question {
		return question{title, at, map[string]string{"serial": "S1", "chassis": "C2"}, want}
	}
	full := []string{"node", "system_uuid", "UUID", "serial", "chassis_serial", "chassis_slot", "pci_bus_id"}
	slot := []string{"node", "UUID", "serial", "chassis_serial", "chassis_slot"}
	gpu := []string{"node", "UUID", "serial"}
	held := []string{"chassis_serial", "chassis_slot", "node", "UUID", "serial", "model"}
	lost := ask("Where is a board, or where was it last", end, map[string]float64{some(s4, full...): stamp(2*daily - time.Minute)})
	lost.variables = map[string]string{"serial": "S4"}
	return []question{
		ask("Where is a board, or where was it last", end, map[string]float64{some(s1b, full...): stamp(end)}),
		lost,
		ask("When was a board first seen in each place", end, map[string]float64{
			some(s1a, slot...): stamp(0), some(s1b, slot...): stamp(3*daily + 2*time.Hour),
		}),
		ask("When was a board last seen in each place", end, map[string]float64{
			some(s1a, slot...): stamp(3*daily - time.Minute), some(s1b, slot...): stamp(end),
		}),
		ask("Which boards were in more than one machine", end, map[string]float64{`{serial="S1"}`: 2}),
		ask("How many boards were there on a day", end, map[string]float64{"{}": 6}),
		ask("How many GPUs were there on a day", end, map[string]float64{"{}": 8}),
		ask("How many boards were there, day by day", end, map[string]float64{"{}": 6}),
		ask("How many boards were there, day by day", 5*daily, map[string]float64{"{}": 5}),
		ask("Which boards arrived in the last day", end, map[string]float64{some(s5, gpu...): 1}),
		ask("Which boards arrived in the last day", 3*daily+12*time.Hour, map[string]float64{some(s1b, gpu...): 1}),
		ask("Which boards departed in the last day", end, map[string]float64{some(s6, gpu...): 1}),
		ask("Which boards departed in the last day", 3*daily+12*time.Hour, map[string]float64{some(s1a, gpu...): 1}),
		ask("Which boards departed in the last day", 5*daily+15*time.Minute, map[string]float64{}),
		ask("Which boards were not seen for seven days", end, map[string]float64{
			some(s4, "node", "serial", "chassis_serial", "chassis_slot"): 1,
		}),
		ask("Which boards did a chassis hold", end, map[string]float64{
			some(s1b, held...): 1, some(s3a, held...): 1, some(s3b, held...): 1, some(s4, held...): 1,
		}),
	}
}

// hosted returns the queries about pods.
func hosted() []question {
	return []question{
		{"Which pods did a chassis host", 10 * daily, map[string]string{"chassis": "C2"}, map[string]float64{
			some(server1, "chassis_serial", "node", "serial", "namespace", "pod", "pod_uid"): 1,
		}},
		{"Pods with several series on a GPU", 10 * daily, map[string]string{"window": "9d"}, map[string]float64{}},
	}
}

// clusters returns the hourly roll-up of two clusters in one store.
func clusters() world {
	const end = 48 * time.Hour
	h := newHistory(time.Hour)
	put := func(cluster string, labels map[string]string, from, to time.Duration) {
		h.constant(series(rollup, with(labels, "cluster", cluster)), from, to, 1)
	}
	put("east", s1a, 0, 20*time.Hour)
	put("west", s1b, 30*time.Hour, end)
	put("east", s2, 0, end)
	put("west", s4, 0, 3*time.Hour)
	return world{name: "clusters", history: h, questions: []question{
		{"Which boards moved across clusters", end, nil, map[string]float64{`{serial="S1"}`: 2}},
	}}
}

// clusterStatements returns two clusters in one store, with namespaces, nodes and a pod of the same
// names. The rules are evaluated on both.
func clusterStatements() world {
	const end = 6 * time.Hour
	h := newHistory(time.Minute)
	for cluster, team := range map[string]string{"east": "red", "west": "blue"} {
		watts := map[string]float64{"east": 100, "west": 200}[cluster]
		gpu := map[string]string{"cluster": cluster, "node": "a", "UUID": "GPU-1", "serial": "S1"}
		labels := map[string]string{"cluster": cluster, "namespace": "alpha", "pod": "train", "pod_uid": "u1"}
		h.linear(series(boardEnergy, gpu), 0, end, 0, watts+50)
		h.linear(series(allocationEnergy, with(gpu, "namespace", "alpha", "pod", "train", "pod_uid", "u1")), 0, end, 0, watts)
		h.constant(series("gpuledger_pod_info", with(labels, "workload_kind", "Job", "workload_name", cluster)), 0, end, 1)
		h.constant(series("kube_namespace_labels", map[string]string{"cluster": cluster, "namespace": "alpha", "label_team": team}), 0, end, 1)
	}
	ask := func(title string, want map[string]float64) question {
		return question{title, 3 * time.Hour, map[string]string{"window": "2h", "serial": "S1", "price": "1", "cluster": "west"}, want}
	}
	return world{name: "statements of clusters", history: h, evaluate: 15 * time.Minute, questions: []question{
		ask("Energy of each namespace", map[string]float64{`{cluster="east",namespace="alpha"}`: 7.2e5, `{cluster="west",namespace="alpha"}`: 14.4e5}),
		ask("Energy of each workload", map[string]float64{
			`{cluster="east",namespace="alpha",workload_kind="Job",workload_name="east"}`: 7.2e5,
			`{cluster="west",namespace="alpha",workload_kind="Job",workload_name="west"}`: 14.4e5,
		}),
		ask("Energy and cost of each team, by the label of its namespaces", map[string]float64{`{label_team="red"}`: 0.2, `{label_team="blue"}`: 0.4}),
		ask("Pods of a board and their energy", map[string]float64{
			`{cluster="east",namespace="alpha",pod="train",pod_uid="u1",serial="S1"}`: 7.2e5,
			`{cluster="west",namespace="alpha",pod="train",pod_uid="u1",serial="S1"}`: 14.4e5,
		}),
		ask("Energy of each board", map[string]float64{`{UUID="GPU-1",cluster="west",serial="S1"}`: 18e5}),
		ask("Energy of each board that no pod or unit was charged for", map[string]float64{`{UUID="GPU-1",cluster="west",serial="S1"}`: 3.6e5}),
		ask("Energy that no pod or unit was charged for", map[string]float64{`{cluster="east"}`: 3.6e5, `{cluster="west"}`: 3.6e5}),
	}}
}
