//go:build e2e

package rules_test

import (
	"time"

	"github.com/gpuledger/gpuledger/test/worlds"
)

// A GPU moves from node a to node b. It is lost on node a at one time, and present on node b at another time.
const (
	lostAt   = 15 * time.Minute
	backAt   = 20 * time.Minute
	moveOver = 40 * time.Minute
)

// joins contains the metrics of all exporters. The reconciler and kube-state-metrics have two replicas each.
// dcgm-exporter is scraped without honorLabels.
func joins() world {
	h := worlds.New(30 * time.Second)
	addGPUs(h)
	addPods(h)
	for uuid, names := range map[string][]string{"GPU-1": {"serve"}, "GPU-2": {"train", "shares"}} {
		for _, pod := range names { // with time-slicing, each pod has the reading of the whole board
			labels := map[string]string{"UUID": uuid, "gpu": "0", "hostname": "a", "exported_namespace": "alpha", "exported_pod": pod, "pod": "dcgm-exporter-x"}
			h.Constant(worlds.Series("DCGM_FI_DEV_POWER_USAGE", labels), 0, moveOver, map[string]float64{"GPU-1": 300, "GPU-2": 200}[uuid])
			h.Constant(worlds.Series("DCGM_FI_DEV_GPU_TEMP", labels), 0, moveOver, map[string]float64{"GPU-1": 70, "GPU-2": 60}[uuid])
			h.Constant(worlds.Series("DCGM_FI_DEV_GPU_UTIL", labels), 0, moveOver, map[string]float64{"GPU-1": 90, "GPU-2": 80}[uuid])
		}
	}
	w := world{name: "joins", history: h, evaluate: 30 * time.Second}
	for _, at := range []time.Duration{10 * time.Minute, 18 * time.Minute, 22 * time.Minute, 35 * time.Minute} {
		w.questions = append(w.questions, onBoards(at)...)
	}
	w.questions = append(w.questions, onPods()...)
	return w
}

// GPU-1 moves. GPU-2 does not move.
func addGPUs(h *worlds.History) {
	info := func(node, uuid, serial, chassis string, from time.Duration) {
		h.Constant(worlds.Series("gpuledger_gpu_info", map[string]string{
			"node": node, "UUID": uuid, "serial": serial, "chassis_serial": chassis, "chassis_slot": "1",
		}), from, moveOver, 1)
	}
	present := func(node, uuid string) string {
		return worlds.Series("gpuledger_gpu_present", map[string]string{"node": node, "UUID": uuid})
	}
	info("a", "GPU-1", "S1", "C1", 0)
	info("a", "GPU-2", "S2", "C1", 0)
	info("b", "GPU-1", "S1", "C2", backAt)
	h.Constant(present("a", "GPU-1"), 0, lostAt, 1)
	h.Constant(present("a", "GPU-1"), lostAt, moveOver, 0)
	h.Constant(present("a", "GPU-2"), 0, moveOver, 1)
	h.Constant(present("b", "GPU-1"), backAt, moveOver, 1)
	for _, replica := range []string{"1", "2"} {
		for node, zone := range map[string]string{"a": "east", "b": "west"} {
			h.Constant(worlds.Series("kube_node_labels", map[string]string{"instance": replica, "node": node, "label_topology_kubernetes_io_zone": zone}), 0, moveOver, 1)
			h.Constant(worlds.Series("kube_node_status_condition", map[string]string{
				"instance": replica, "node": node, "condition": "Ready", "status": "true",
			}), 0, moveOver, map[string]float64{"a": 0, "b": 1}[node])
		}
	}
}

// Two pods share GPU-2. After the move, a pod that the reconciler does not list uses GPU-1.
func addPods(h *worlds.History) {
	pod := func(node, uuid, name string, from time.Duration, watts float64) {
		labels := map[string]string{"node": node, "UUID": uuid, "namespace": "alpha", "pod": name, "pod_uid": "u-" + name, "container": "main"}
		h.Constant(worlds.Series("gpuledger_container_gpu_info", labels), from, moveOver, 1)
		h.Linear(worlds.Series("gpuledger_container_energy_joules_total", worlds.With(labels, "method", "shared")), from, moveOver, 0, watts)
		h.Linear(worlds.Series("container_cpu_usage_seconds_total", map[string]string{"namespace": "alpha", "pod": name, "container": "main"}), from, moveOver, 0, 2)
		h.Constant(worlds.Series("container_memory_working_set_bytes", map[string]string{"namespace": "alpha", "pod": name, "container": "main"}), from, moveOver, 1024)
		for _, replica := range []string{"1", "2"} {
			who := map[string]string{"instance": replica, "namespace": "alpha", "pod": name, "uid": "u-" + name}
			h.Constant(worlds.Series("kube_pod_labels", worlds.With(who, "label_team", "red")), from, moveOver, 1)
			h.Constant(worlds.Series("kube_pod_status_phase", worlds.With(who, "phase", "Failed")), from, moveOver, map[string]float64{"shares": 1}[name])
			if name != "serve" {
				h.Constant(worlds.Series("gpuledger_pod_info", worlds.With(who, "uid", "", "pod_uid", "u-"+name, "workload_kind", "Job", "workload_name", name)), from, moveOver, 1)
			}
		}
	}
	pod("a", "GPU-2", "train", 0, 120)
	pod("a", "GPU-2", "shares", 0, 80)
	pod("b", "GPU-1", "serve", backAt, 300)
	// A scrape without honorLabels adds the labels exported_namespace and exported_pod.
	h.Linear(worlds.Series("gpuledger_container_energy_joules_total", map[string]string{
		"node": "c", "UUID": "GPU-9", "namespace": "kube-system", "pod": "plugin-x", "container": "gpuledger",
		"exported_namespace": "beta", "exported_pod": "far", "pod_uid": "u-far", "method": "exclusive",
	}), 0, moveOver, 0, 50)
}

// onBoards returns the queries that do not depend on pods. at is a time during the move.
func onBoards(at time.Duration) []question {
	gpu1, gpu2 := map[string]string{"node": "a", "serial": "S1", "chassis_serial": "C1", "chassis_slot": "1", "UUID": "GPU-1"},
		map[string]string{"node": "a", "serial": "S2", "chassis_serial": "C1", "chassis_slot": "1", "UUID": "GPU-2"}
	hottest := map[string]float64{`{chassis_serial="C1"}`: 70}
	down := map[string]float64{worlds.Some(gpu1, all...): 1, worlds.Some(gpu2, all...): 1}
	zone := "east"
	if at > backAt {
		gpu1 = worlds.With(gpu1, "node", "b", "chassis_serial", "C2")
		hottest = map[string]float64{`{chassis_serial="C1"}`: 60, `{chassis_serial="C2"}`: 70}
		delete(down, worlds.Some(worlds.With(gpu1, "node", "a", "chassis_serial", "C1"), all...))
		zone = "west"
	}
	named := make(map[string]float64)
	for labels, value := range down {
		named["gpuledger:gpu_identity:info"+labels] = value
	}
	who := func(labels map[string]string, pod string) string {
		return worlds.Some(worlds.With(labels, "exported_namespace", "alpha", "exported_pod", pod), "UUID", "exported_namespace", "exported_pod", "serial", "chassis_serial")
	}
	return []question{
		{"Power of each GPU, with its serial and chassis", at, nil, map[string]float64{worlds.Some(gpu1, all...): 300, worlds.Some(gpu2, all...): 200}},
		{"Hottest GPU of each chassis", at, nil, hottest},
		{
			"Power of each GPU and the pod on it, without honorLabels", at, nil,
			map[string]float64{who(gpu1, "serve"): 300, who(gpu2, "train"): 200, who(gpu2, "shares"): 200},
		},
		{"GPUs, with their node's zone", at, nil, map[string]float64{
			worlds.Some(worlds.With(gpu1, "label_topology_kubernetes_io_zone", zone), append(all, "label_topology_kubernetes_io_zone")...):   1,
			worlds.Some(worlds.With(gpu2, "label_topology_kubernetes_io_zone", "east"), append(all, "label_topology_kubernetes_io_zone")...): 1,
		}},
		{"Boards on nodes that are not ready", at, nil, named},
	}
}

var all = []string{"node", "serial", "chassis_serial", "chassis_slot", "UUID"}

// The queries about pods are evaluated at the end of the history.
func onPods() []question {
	const at = 35 * time.Minute
	job := func(name string) string { return `workload_kind="Job",workload_name="` + name + `"` }
	pod := func(name, more string) string { return `{namespace="alpha",pod="` + name + `"` + more + `}` }
	ask := func(title string, want map[string]float64) question { return question{title, at, nil, want} }
	return []question{
		ask("Utilisation of the GPUs of each workload", map[string]float64{
			`{UUID="GPU-2",` + job("train") + `}`: 80, `{UUID="GPU-2",` + job("shares") + `}`: 80,
		}),
		ask("Watts of each pod, with a pod label", map[string]float64{
			pod("train", `,pod_uid="u-train",label_team="red"`): 120, pod("shares", `,pod_uid="u-shares",label_team="red"`): 80,
			pod("serve", `,pod_uid="u-serve",label_team="red"`): 300,
		}),
		ask("Boards of failed pods", map[string]float64{pod("shares", `,serial="S2",chassis_serial="C1"`): 1}),
		ask("CPU cores of the pods on each board", map[string]float64{
			pod("train", `,serial="S2",chassis_serial="C1"`): 2, pod("shares", `,serial="S2",chassis_serial="C1"`): 2,
			pod("serve", `,serial="S1",chassis_serial="C2"`): 2,
		}),
		ask("Memory of each container that has a GPU, with the board", map[string]float64{
			pod("train", `,container="main",serial="S2"`): 1024, pod("shares", `,container="main",serial="S2"`): 1024,
			pod("serve", `,container="main",serial="S1"`): 1024,
		}),
		ask("Watts of each board and workload", map[string]float64{
			`{serial="S2",` + job("train") + `}`: 120, `{serial="S2",` + job("shares") + `}`: 80, `{serial="S1"}`: 300,
		}),
		ask("Watts of each pod, if the exporter is scraped without honorLabels", map[string]float64{`{namespace="beta",pod="far"}`: 50}),
	}
}

// One Prometheus contains two clusters. A GPU has moved from one cluster to the other.
func globalJoins() world {
	const at = 10 * time.Minute
	h := worlds.New(30 * time.Second)
	for cluster, node := range map[string]string{"east": "a", "west": "b"} {
		h.Constant(worlds.Series("gpuledger:gpu_identity:info", map[string]string{"cluster": cluster, "node": node, "UUID": "GPU-1", "serial": "S1"}), 0, moveOver, 1)
	}
	h.Constant(`DCGM_FI_DEV_POWER_USAGE{UUID="GPU-1",cluster="west"}`, 0, moveOver, 300)
	return world{name: "joins of clusters", history: h, evaluate: time.Minute, questions: []question{
		{"The same in a store of several clusters", at, nil, map[string]float64{`{UUID="GPU-1",cluster="west",node="b",serial="S1"}`: 300}},
	}}
}
