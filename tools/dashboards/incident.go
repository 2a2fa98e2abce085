package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// picked is the identity of the GPUs that the variables pick, by node, board, GPU, or by
// the pod that holds them, or did within the last hour.
var picked = fill(`(GPUS
  and on (cluster, node, UUID) (last_over_time(gpuledger_gpu_info{NODE, POD}[1h]) or last_over_time(gpuledger_container_gpu_info{NODE, POD}[1h])))`,
	"GPUS", remembered(onNode+`, serial=~"$serial", UUID=~"$UUID"`), "NODE", onNode, "POD", inPod)

// nearby are the GPUs beside the picked ones, with the label beside: what they have in
// common. Nearest first; a GPU is there once.
var nearby = fill(`((label_replace(gpuledger_gpu_info{CLUSTER, serial!=""} and on (cluster, serial) PICKED, "beside", "1: same board", "", "")
  or on (cluster, node, UUID) label_replace(gpuledger_gpu_info{CLUSTER} and on (cluster, node) PICKED, "beside", "2: same node", "", "")
  or on (cluster, node, UUID) label_replace(gpuledger_gpu_info{CLUSTER, chassis_serial!=""} and on (cluster, chassis_serial) PICKED, "beside", "3: same chassis", "", ""))
  unless on (cluster, node, UUID) PICKED)`, "PICKED", picked, "CLUSTER", inCluster)

func incident() *dashboard.DashboardBuilder {
	b := board(uidIncident, "gpuledger / Incident", "What is wrong with this GPU, who is affected, and what is beside it. Alerts lead here.", "now-3h").
		WithVariable(variable("node", "Node", `label_values(gpuledger_gpu_info{cluster=~"$cluster"}, node)`)).
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node"}, namespace)`)).
		WithVariable(variable("pod", "Pod", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node", namespace=~"$namespace"}, pod)`)).
		WithVariable(variable("serial", "Serial number", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node"}, serial)`)).
		WithVariable(variable("UUID", "GPU", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node", serial=~"$serial"}, UUID)`))
	return incidentAround(incidentNow(b))
}

// incidentNow adds what is the matter.
func incidentNow(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(number(words{
			"GPUs lost", "GPUs that the driver no longer answers for, of those picked above.", "no GPU picked",
		}, quarter, "short", fill(`count(STATES == 0) or 0 * count(PICKED)`, "STATES", states(picked), "PICKED", picked)).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{
			"GPUs present", "GPUs that the driver answers for, of those picked above.", "none",
		}, quarter, "short", fill(`count(STATES == 1) or 0 * count(PICKED)`, "STATES", states(picked), "PICKED", picked)).
			Thresholds(from("text"))).
		WithPanel(number(words{
			"XIDs in the time range", "Kinds of errors that the driver reported for these GPUs in the time range, each GPU's counted for itself.", "not reported by the driver",
		}, quarter, "short", reported(picked)).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(number(words{
			"Last answer", "Time since any of these GPUs last answered. More than a minute: the exporter, the driver or the node is in trouble.", "none within an hour",
		}, quarter, "s", fill(`ceil(time() - max(last_over_time(gpuledger_gpu_last_reading_timestamp_seconds{NODE}[1h]) and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "PICKED", picked)).
			Thresholds(from("green", step(60, "orange"), step(300, "red"))).Decimals(0)).
		WithPanel(rows(words{
			"Which GPUs, where, and whose",
			"The picked GPUs, 200 at most, those with something wrong first. LOST: the driver no longer answers for it. Silent: nothing was scraped from its node in the last minutes. Gone: its node answers and knows it no longer, so the board was taken out within the last hour.",
			"no GPU picked",
		}, full, place(), fill(`bottomk(200, STATES * on (cluster, node, UUID) group_left (holder) HOLDERS)`, "STATES", states(picked), "HOLDERS", holders(onNode))).
			SortBy(ascending("State"))).
		WithPanel(rows(words{
			"Pods on these GPUs", "Every container that holds or uses one of the GPUs now, how many of them, and the workload at the root of its owners. Without the reconciler the pod stands for its workload.",
			"nobody holds or uses them",
		}, 14, []column{
			{field: "namespace", title: "Namespace", width: 100},
			{field: "workload_kind", title: "Kind", width: 80},
			{field: "workload_name", title: "Workload"},
			{field: "pod", title: "Pod", link: toPod},
			{field: "container", title: "Container", width: 100},
			{field: "node", title: "Node", link: toNode, width: 100},
			{field: "Value", title: "GPUs", width: 70},
			{field: "sharing", title: "Held as"},
		}, workloads(fill(`(count by (cluster, node, namespace, pod, pod_uid, container, sharing) (gpuledger_container_gpu_info{NODE, POD} and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "POD", inPod, "PICKED", picked))).
			SortBy(descending("GPUs")).Height(6)).
		WithPanel(rows(words{
			"Latest XIDs", "When the driver last reported each XID, newest first. NVIDIA's list says what they mean: docs.nvidia.com/deploy/xid-errors.",
			"no XID error was reported",
		}, 10, []column{
			{field: "Value", title: "Last reported", unit: "dateTimeAsIso", width: 170},
			{field: "xid", title: "XID", states: xids},
			{field: "node", title: "Node", link: toNode, width: 110},
			{field: "serial", title: "Serial number", link: toLife, width: 130},
		}, fill(`1000 * max by (cluster, node, UUID, serial, xid) (
  last_over_time(gpuledger_gpu_xid_last_timestamp_seconds{NODE}[1h]) * on (cluster, node, UUID) group_left (serial) PICKED)`, "NODE", onNode, "PICKED", picked)).
			SortBy(descending("Last reported")).Height(6))
}

// incidentAround adds what came before, and what is beside.
func incidentAround(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(bands(words{
			"Present or lost", "One band for each of the picked GPUs, 50 at most; a gap means that nothing was scraped.", "no GPU picked",
		}, third, fill(`max by (node, pci_bus_id, serial, UUID) (bottomk(50, gpuledger_gpu_present{NODE} * on (cluster, node, UUID) group_left (pci_bus_id, serial) PICKED))`,
			"NODE", onNode, "PICKED", picked), "{{node}} {{pci_bus_id}} {{serial}}", presence...)).
		WithPanel(lines(words{
			"Power", "Power of each picked GPU, from its energy counter; of the 20 that draw most.", "no energy was read",
		}, third, "watt", fill(`topk(20, rate(gpuledger_gpu_energy_joules_total{NODE}[$__rate_interval]) * on (cluster, node, UUID) group_left (pci_bus_id) PICKED)`,
			"NODE", onNode, "PICKED", picked), "{{node}} {{pci_bus_id}}")).
		WithPanel(lines(words{
			"Temperature", "Temperature of each picked GPU, from gpuledger or else from dcgm-exporter; of the 20 hottest. A lost GPU has none.", "not read: lost, or see --collector.gauges",
		}, third, "celsius", fill(`topk(20, (gpuledger_gpu_temperature_celsius{NODE}
  or on (UUID) DCGM_FI_DEV_GPU_TEMP{CLUSTER}) * on (UUID) group_left (node, pci_bus_id) topk by (UUID) (1, PICKED))`,
			"NODE", onNode, "CLUSTER", inCluster, "PICKED", picked), "{{node}} {{pci_bus_id}}")).
		WithPanel(rows(words{
			"Beside them", "Other GPUs of the same board, then of the same node, then of the same chassis, 200 at most. Are they well, and who would have to move for a repair?",
			"nothing is beside them, or no GPU was picked",
		}, full, append([]column{{field: "beside", title: "Beside", width: 130}}, place()...),
			fill(`bottomk(200, STATES * on (cluster, node, UUID) group_left (holder) HOLDERS)`, "STATES", states(nearby), "HOLDERS", holders(inCluster))).
			SortBy(ascending("Beside")).Height(7)).
		WithPanel(rows(words{
			"Where these boards were", "Each place that the boards of the picked GPUs had in the time range. Two places of one GPU: it was moved, or its machine was renamed.",
			"never present in the time range, or the job gpuledger-record is not scraped",
		}, full, placed, seen(fill(`gpuledger_placement_info{CLUSTER, serial=~"$serial"}`, "CLUSTER", inCluster),
			"cluster, node, serial, chassis_serial, chassis_slot, tray_index, pci_bus_id, UUID", fill(` and on (cluster, UUID) PICKED`, "PICKED", picked))...).
			Interval("1m").SortBy(descending("Until")).Height(7))
}
