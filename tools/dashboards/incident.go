package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// toIncident opens the incident dashboard on a table's row.
const toIncident = "/d/" + uidIncident + "?var-datasource=${datasource}&var-cluster=${cluster}&${__url_time_range}"

// presence is what the values of states mean.
var presence = []dashboard.ValueMapping{
	state("1", "present", "green"),
	state("0", "LOST", "red"),
	state("-1", "silent", "orange"),
}

// picked is the identity of the GPUs that the variables pick, by node, board, GPU, or by
// the pod that holds them, or did within the last hour.
var picked = fill(`(GPUS
  and on (cluster, node, UUID) (last_over_time(gpuledger_gpu_info{NODE, POD}[1h]) or last_over_time(gpuledger_container_gpu_info{NODE, POD}[1h])))`,
	"GPUS", identity(onNode+`, serial=~"$serial", UUID=~"$UUID"`), "NODE", onNode, "POD", inPod)

func incident() *dashboard.DashboardBuilder {
	return board(uidIncident, "gpuledger / Incident", "What is wrong with this GPU, who is affected, and what is beside it. Alerts lead here.", "now-3h").
		WithVariable(variable("node", "Node", `label_values(gpuledger_gpu_info{cluster=~"$cluster"}, node)`)).
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node"}, namespace)`)).
		WithVariable(variable("pod", "Pod", `label_values(gpuledger_container_gpu_info{cluster=~"$cluster", node=~"$node", namespace=~"$namespace"}, pod)`)).
		WithVariable(variable("serial", "Serial number", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node"}, serial)`)).
		WithVariable(variable("UUID", "GPU", `label_values(gpuledger_gpu_info{cluster=~"$cluster", node=~"$node", serial=~"$serial"}, UUID)`)).
		WithPanel(number(words{
			"GPUs lost", "GPUs that the driver no longer answers for, of those picked above.", "no GPU picked",
		}, quarter, "short", fill(`count(STATES == 0) or 0 * count(PICKED)`, "STATES", states(picked), "PICKED", picked)).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{
			"GPUs present", "GPUs that the driver answers for, of those picked above.", "none",
		}, quarter, "short", fill(`count(STATES == 1)`, "STATES", states(picked))).
			Thresholds(from("text"))).
		WithPanel(number(words{
			"XID errors", "Errors that the driver reported for these GPUs in the time range.", "not reported by the driver",
		}, quarter, "short", fill(`round(sum(increase(gpuledger_gpu_xid_errors_total{NODE}[$__range]) and on (cluster, node, UUID) PICKED))`,
			"NODE", onNode, "PICKED", picked)).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(number(words{
			"Last answer of a GPU", "Time since any of these GPUs last answered. More than a minute: the exporter, the driver or the node is in trouble.", "no answer within an hour",
		}, quarter, "s", fill(`time() - max(last_over_time(gpuledger_gpu_last_reading_timestamp_seconds{NODE}[1h]) and on (cluster, node, UUID) PICKED)`,
			"NODE", onNode, "PICKED", picked)).
			Thresholds(from("green", step(60, "orange"), step(300, "red"))).Decimals(0)).
		WithPanel(rows(words{
			"Which GPUs, where, and whose",
			"The picked GPUs, lost ones first, 200 at most. Silent: nothing was scraped from the node in the last minutes. The holder is the pod that holds or uses the GPU.",
			"no GPU picked",
		}, full, places(), fill(`bottomk(200, STATES * on (cluster, node, UUID) group_left (holder) HOLDERS)`, "STATES", states(picked), "HOLDERS", holders(onNode))).
			SortBy(ascending("State")))
}

// places are the columns that say where a GPU is and who has it.
func places() []column {
	return []column{
		{field: "Value", title: "State", states: presence, width: 90},
		{field: "node", title: "Node", link: toIncident + "&var-node=${__value.text}"},
		{field: "serial", title: "Serial number", link: "/d/" + uidLife + "?var-datasource=${datasource}&var-serial=${__value.text}"},
		{field: "holder", title: "Holder"},
		{field: "chassis_serial", title: "Chassis", link: "/d/" + uidChassis + "?var-datasource=${datasource}&var-chassis=${__value.text}"},
		{field: "tray_index", title: "Tray", width: 70},
		{field: "module_id", title: "Module", width: 80},
		{field: "pci_bus_id", title: "PCI address"},
		{field: "model", title: "Model"},
		{field: "UUID", title: "UUID", link: toIncident + "&var-UUID=${__value.text}"},
	}
}
