//go:build e2e

package rules_test

import (
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// boards contains ten days of the placements of boards.
func boards() world {
	return world{
		name: "boards", history: worlds.Boards(), rules: []string{rules("placement.yaml")}, record: true,
		questions: append(whereabouts(), hosted()...),
	}
}

func whereabouts() []question {
	const end = 10 * worlds.Daily
	stamp := func(at time.Duration) float64 { return float64(began.Add(at).Unix()) }
	ask := func(title string, at time.Duration, want map[string]float64) question {
		return question{title, at, map[string]string{"serial": "S1", "chassis": "C2"}, want}
	}
	full := []string{"node", "system_uuid", "UUID", "serial", "chassis_serial", "chassis_slot", "pci_bus_id"}
	slot := []string{"node", "UUID", "serial", "chassis_serial", "chassis_slot"}
	gpu := []string{"node", "UUID", "serial"}
	held := []string{"chassis_serial", "chassis_slot", "node", "UUID", "serial", "model"}
	lost := ask("Where is a board, or where was it last", end, map[string]float64{worlds.Some(worlds.S4, full...): stamp(2*worlds.Daily - time.Minute)})
	lost.variables = map[string]string{"serial": "S4"}
	return []question{
		ask("Where is a board, or where was it last", end, map[string]float64{worlds.Some(worlds.S1b, full...): stamp(end)}),
		lost,
		ask("When was a board first seen in each place", end, map[string]float64{
			worlds.Some(worlds.S1a, slot...): stamp(0), worlds.Some(worlds.S1b, slot...): stamp(3*worlds.Daily + 2*time.Hour),
		}),
		ask("When was a board last seen in each place", end, map[string]float64{
			worlds.Some(worlds.S1a, slot...): stamp(3*worlds.Daily - time.Minute), worlds.Some(worlds.S1b, slot...): stamp(end),
		}),
		ask("Which boards were in more than one machine", end, map[string]float64{`{serial="S1"}`: 2}),
		ask("How many boards were there on a day", end, map[string]float64{"{}": 6}),
		ask("How many GPUs were there on a day", end, map[string]float64{"{}": 8}),
		ask("How many boards were there, day by day", end, map[string]float64{"{}": 6}),
		ask("How many boards were there, day by day", 5*worlds.Daily, map[string]float64{"{}": 5}),
		ask("Which boards arrived in the last day", end, map[string]float64{worlds.Some(worlds.S5, gpu...): 1}),
		ask("Which boards arrived in the last day", 3*worlds.Daily+12*time.Hour, map[string]float64{worlds.Some(worlds.S1b, gpu...): 1}),
		ask("Which boards departed in the last day", end, map[string]float64{worlds.Some(worlds.S6, gpu...): 1}),
		ask("Which boards departed in the last day", 3*worlds.Daily+12*time.Hour, map[string]float64{worlds.Some(worlds.S1a, gpu...): 1}),
		ask("Which boards departed in the last day", 5*worlds.Daily+15*time.Minute, map[string]float64{}),
		ask("Which boards were not seen for seven days", end, map[string]float64{
			worlds.Some(worlds.S4, "node", "serial", "chassis_serial", "chassis_slot"): 1,
		}),
		ask("Which boards did a chassis hold", end, map[string]float64{
			worlds.Some(worlds.S1b, held...): 1, worlds.Some(worlds.S3a, held...): 1, worlds.Some(worlds.S3b, held...): 1, worlds.Some(worlds.S4, held...): 1,
		}),
	}
}

func hosted() []question {
	return []question{
		{"Which pods did a chassis host", 10 * worlds.Daily, map[string]string{"chassis": "C2"}, map[string]float64{
			worlds.Some(worlds.Server1, "chassis_serial", "node", "serial", "namespace", "pod", "pod_uid"): 1,
		}},
		{"Pods with several series on a GPU", 10 * worlds.Daily, map[string]string{"window": "9d"}, map[string]float64{}},
	}
}

// One Prometheus contains the hourly placements of two clusters.
func clusters() world {
	const end = 48 * time.Hour
	h := worlds.New(time.Hour)
	put := func(cluster string, labels map[string]string, from, to time.Duration) {
		h.Constant(worlds.Series(worlds.Rollup, worlds.With(labels, "cluster", cluster)), from, to, 1)
	}
	put("east", worlds.S1a, 0, 20*time.Hour)
	put("west", worlds.S1b, 30*time.Hour, end)
	put("east", worlds.S2, 0, end)
	put("west", worlds.S4, 0, 3*time.Hour)
	return world{name: "clusters", history: h, questions: []question{
		{"Which boards moved across clusters", end, nil, map[string]float64{`{serial="S1"}`: 2}},
	}}
}

// One Prometheus contains two clusters. Their namespaces, nodes and a pod have equal names. The rules are evaluated for
// both clusters.
func clusterStatements() world {
	const end = 6 * time.Hour
	h := worlds.New(time.Minute)
	for cluster, team := range map[string]string{"east": "red", "west": "blue"} {
		watts := map[string]float64{"east": 100, "west": 200}[cluster]
		gpu := map[string]string{"cluster": cluster, "node": "a", "UUID": "GPU-1", "serial": "S1"}
		labels := map[string]string{"cluster": cluster, "namespace": "alpha", "pod": "train", "pod_uid": "u1"}
		h.Linear(worlds.Series(worlds.BoardEnergy, gpu), 0, end, 0, watts+50)
		h.Linear(worlds.Series(worlds.AllocationEnergy, worlds.With(gpu, "namespace", "alpha", "pod", "train", "pod_uid", "u1")), 0, end, 0, watts)
		h.Constant(worlds.Series("gpuledger_pod_info", worlds.With(labels, "workload_kind", "Job", "workload_name", cluster)), 0, end, 1)
		h.Constant(worlds.Series("kube_namespace_labels", map[string]string{"cluster": cluster, "namespace": "alpha", "label_team": team}), 0, end, 1)
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
