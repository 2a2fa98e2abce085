package main

import (
	"slices"

	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// picked selects GPUs by the variables for node, board, GPU and pod, and returns the series with their identity. A pod
// selects the GPUs that it holds now or held in the last hour.
var picked = fill(`(GPUS
  and on (cluster, node, UUID) (last_over_time(gpuledger_gpu_info{NODE, POD}[1h]) or last_over_time(gpuledger_container_gpu_info{NODE, POD}[1h])))`,
	"GPUS", remembered(onNode+`, serial=~"$serial", UUID=~"$UUID"`), "NODE", onNode, "POD", inPod)

// nearby selects each GPU that shares a board, a node or a chassis with a picked GPU. Each GPU occurs once. The label
// beside contains the smallest object that both GPUs share.
var nearby = fill(`((label_replace(gpuledger_gpu_info{CLUSTER, serial!=""} and on (cluster, serial) PICKED, "beside", "1: same board", "", "")
  or on (cluster, node, UUID) label_replace(gpuledger_gpu_info{CLUSTER} and on (cluster, node) PICKED, "beside", "2: same node", "", "")
  or on (cluster, node, UUID) label_replace(gpuledger_gpu_info{CLUSTER, chassis_serial!=""} and on (cluster, chassis_serial) PICKED, "beside", "3: same chassis", "", ""))
  unless on (cluster, node, UUID) PICKED)`, "PICKED", picked, "CLUSTER", inCluster)

func incident() *dashboard.DashboardBuilder {
	b := board(uidIncident, "gpuledger / Incident", "Shows the state of a GPU, the pods that it affects, and the GPUs beside it. Alerts link here.", "now-3h").
		WithVariable(variable("node", "Node", `label_values(gpuledger_gpu_info{cluster=~"$cluster"}, node)`)).
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node"}, namespace)`)).
		WithVariable(variable("pod", "Pod", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node", namespace=~"$namespace"}, pod)`)).
		WithVariable(variable("serial", "Serial number", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node"}, serial)`)).
		WithVariable(variable("UUID", "GPU", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node", serial=~"$serial"}, UUID)`))
	return conditionPanels(incidentAround(incidentNow(b)), onNode, picked)
}

func incidentNow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(number(words{
			"GPUs lost", "Selected GPUs that the driver lost.", "no GPU selected",
		}, quarter, "short", fill(`count(STATES == 0) or 0 * count(PICKED)`, "STATES", states(picked), "PICKED", picked)).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{
			"GPUs present", "Selected GPUs that the driver lists.", "none",
		}, quarter, "short", fill(`count(STATES == 1) or 0 * count(PICKED)`, "STATES", states(picked), "PICKED", picked)).
			Thresholds(from("text"))).
		WithPanel(number(words{
			"XIDs in the time range", "Distinct XIDs that the driver reported for the selected GPUs in the time range, counted per GPU.", "not reported by the driver",
		}, quarter, "short", reported(picked)).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(number(words{
			"Last reading", "Time since the last reading of any selected GPU. If it is more than a minute, the cause is probably the exporter, the driver or the node.", "no reading in the last hour",
		}, quarter, "s", fill(`ceil(time() - max(last_over_time(gpuledger_gpu_last_reading_timestamp_seconds{NODE}[1h]) and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "PICKED", picked)).
			Thresholds(from("green", step(60, "orange"), step(300, "red"))).Decimals(0)).
		WithPanel(rows(words{
			"Selected GPUs",
			"At most 200 GPUs, faulty ones first. LOST: the driver no longer lists the GPU. Not scraped: the node was not scraped in the last minutes. Removed: the node is scraped, but the board was removed in the last hour.",
			"no GPU selected",
		}, full, place(), fill(`bottomk(200, STATES * on (cluster, node, UUID) group_left (holder) HOLDERS)`, "STATES", states(picked), "HOLDERS", holders(onNode))).
			SortBy(ascending("State"))).
		WithPanel(rows(words{
			"Pods on these GPUs", "Containers that hold or use one of the GPUs now, with the number of GPUs and the workload. Without the reconciler, the workload is the pod itself.",
			"no pod holds or uses them",
		}, 14, []column{
			{field: "namespace", title: "Namespace", width: 95},
			{field: "workload_kind", title: "Kind", width: 105},
			{field: "workload_name", title: "Workload"},
			{field: "pod", title: "Pod", link: toPod},
			{field: "container", title: "Container", width: 95},
			{field: "node", title: "Node", link: toNode, width: 95},
			{field: "Value", title: "GPUs", width: 65},
			{field: "sharing", title: "Held as", width: 95},
		}, workloads(fill(`(count by (cluster, node, namespace, pod, pod_uid, container, sharing) (gpuledger_container_gpu_info{NODE, POD} and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "POD", inPod, "PICKED", picked))).
			SortBy(descending("GPUs")).Height(6)).
		WithPanel(rows(words{
			"Latest XIDs", "Time of the last report of each XID, newest first. Meanings: docs.nvidia.com/deploy/xid-errors.",
			"no XID error was reported",
		}, 10, []column{
			{field: "Value", title: "Last reported", unit: "dateTimeAsIso", width: 170},
			{field: "xid", title: "XID", states: xids},
			{field: "node", title: "Node", link: toNode, width: 110},
			{field: "serial", title: "Serial number", link: toLife, width: 130},
		}, fill(`1000 * max by (cluster, node, UUID, serial, xid) (
  last_over_time(gpuledger_gpu_xid_last_timestamp_seconds{NODE}[1h]) * on (cluster, node, UUID) group_left (serial) PICKED)`, "NODE", onNode, "PICKED", picked)).
			SortBy(descending("Last reported")).Height(6)).
		WithPanel(rows(words{
			"Units on these GPUs", "Jobs, containers, services and users outside pods that hold or use one of the GPUs now, with the number of GPUs.",
			"no unit holds or uses them",
		}, full, []column{
			{field: "manager", title: "Manager", width: 100},
			{field: "unit", title: "Unit"},
			{field: "user", title: "User"},
			{field: "uid", title: "UID", width: 100},
			{field: "account", title: "Account"},
			{field: "node", title: "Node", link: toNode},
			{field: "Value", title: "GPUs", width: 70},
			{field: "sharing", title: "Held as"},
		}, described(fill(`(count by (cluster, node, manager, unit, sharing) (gpuledger_unit_gpu_info{NODE} and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "PICKED", picked))).
			SortBy(descending("GPUs")).Height(5))
}

func incidentAround(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(bands(words{
			"Present or lost", "One band for each selected GPU, at most 50. A gap means that the GPU was not scraped.", "no GPU selected",
		}, third, fill(`max by (node, pci_bus_id, serial, UUID) (bottomk(50, gpuledger_gpu_present{NODE} * on (cluster, node, UUID) group_left (pci_bus_id, serial) PICKED))`,
			"NODE", onNode, "PICKED", picked), "{{node}} {{pci_bus_id}} {{serial}}", presence...)).
		WithPanel(lines(words{
			"Power", "Power of the selected GPUs, from their energy counters; the 20 highest.", "no energy readings",
		}, third, "watt", fill(`topk(20, rate(gpuledger_gpu_energy_joules_total{NODE}[$__rate_interval]) * on (cluster, node, UUID) group_left (pci_bus_id) PICKED)`,
			"NODE", onNode, "PICKED", picked), "{{node}} {{pci_bus_id}}")).
		WithPanel(lines(words{
			"Temperature", "Temperature of the selected GPUs, from gpuledger or else from dcgm-exporter; the 20 hottest. A lost GPU has no temperature.", "not read: lost, or see --collector.gauges",
		}, third, "celsius", fill(`topk(20, (gpuledger_gpu_temperature_celsius{NODE}
  or on (UUID) DCGM_FI_DEV_GPU_TEMP{CLUSTER}) * on (UUID) group_left (node, pci_bus_id) topk by (UUID) (1, PICKED))`,
			"NODE", onNode, "CLUSTER", inCluster, "PICKED", picked), "{{node}} {{pci_bus_id}}")).
		WithPanel(rows(words{
			"GPUs beside them", "Other GPUs of the same board, node and chassis, at most 200, with the pods that a repair would affect.",
			"no GPU is beside the selected GPUs, or no GPU is selected",
		}, full, append([]column{{field: "beside", title: "Beside", width: 130}}, slices.DeleteFunc(place(), func(c column) bool { return c.field == "chassis_serial" })...),
			fill(`bottomk(200, STATES * on (cluster, node, UUID) group_left (holder) HOLDERS)`, "STATES", states(nearby), "HOLDERS", holders(inCluster))).
			SortBy(ascending("Beside")).Height(7)).
		WithPanel(rows(words{
			"Places of these boards", "Places of the boards of the selected GPUs in the time range. A GPU with two places was moved, or its machine was renamed.",
			"never present in the time range, or the job gpuledger-record is not scraped",
		}, full, placed, seen(fill(`gpuledger_placement_info{CLUSTER, serial=~"$serial"}`, "CLUSTER", inCluster),
			"cluster, node, serial, chassis_serial, chassis_slot, tray_index, pci_bus_id, UUID", fill(` and on (cluster, UUID) PICKED`, "PICKED", picked))...).
			Interval("1m").SortBy(descending("Until")).Height(7))
}
