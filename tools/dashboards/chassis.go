package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// housed selects the GPUs of the chassis. A GPU that reports no chassis is in the chassis of its machine. In a table,
// the chassis cell of such a GPU is empty. The link in this cell selects all GPUs of the machine that report no
// chassis.
var housed = unlessGone(fill(`(IN or (OUT and on (cluster, node) (last_over_time(gpuledger_node_info{cluster=~"$cluster", chassis_serial="$chassis_serial"}[1h]) or NAMED)))`,
	"IN", remembered(inCluster+`, chassis_serial="$chassis_serial"`), "OUT", remembered(inCluster+`, chassis_serial=""`), "NAMED", linked))

// linked selects the GPUs of the machine that a link from an empty cell has set.
var linked = fill(`(last_over_time(gpuledger_gpu_info{cluster=~"$cluster", node="$machine"}[1h])
    and on () (label_replace(vector(1), "chassis", "$chassis_serial", "", "") and on (chassis) label_replace(vector(1), "chassis", "NONE", "", "")))`, "NONE", emptyCell)

// housings contains the values of the chassis variable. If a link has set a machine, housings includes the value of an
// empty cell.
var housings = fill(`query_result(group by (chassis_serial) (gpuledger_gpu_info{cluster=~"$cluster", chassis_serial!=""})
  or group by (chassis_serial) (gpuledger_node_info{cluster=~"$cluster", chassis_serial!=""} and on (cluster, node) gpuledger_gpu_info{cluster=~"$cluster", chassis_serial=""})
  or label_replace(group (gpuledger_gpu_info{cluster=~"$cluster", chassis_serial="", node="$machine"}), "chassis_serial", "NONE", "", ""))`, "NONE", emptyCell)

func chassis() *dashboard.DashboardBuilder {
	held := fill(`(STATES == 1) * on (cluster, node, UUID) group_left (holder) HOLDERS`, "STATES", states(housed), "HOLDERS", holders(inCluster))
	b := board(uidChassis, "gpuledger / Chassis", "Shows the GPUs of one chassis, by tray, and their holders.", "now-6h").
		WithVariable(text("machine", "Machine", "").Hide(dashboard.VariableHideHideVariable)).
		WithVariable(one("chassis_serial", "Chassis", housings).Regex(`/chassis_serial="([^"]+)"/`)).
		WithPanel(number(words{"GPUs lost", "GPUs of the chassis that the driver lost.", "no GPU in this chassis"}, quarter, "short",
			fill(`count(STATES == 0) or 0 * count(HOUSED)`, "STATES", states(housed), "HOUSED", housed)).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{"GPUs present", "GPUs of the chassis that the driver lists.", "no GPU in this chassis"}, quarter, "short",
			fill(`count(STATES == 1) or 0 * count(HOUSED)`, "STATES", states(housed), "HOUSED", housed)).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs free", "Present GPUs of the chassis that no pod holds or uses.", "none"}, quarter, "short",
			fill(`count((HELD) * on (cluster, node, UUID) group_left () (HOLDERS and on (holder) label_replace(vector(1), "holder", "free", "", ""))) or 0 * count(HOUSED)`,
				"HELD", fill(`STATES == 1`, "STATES", states(housed)), "HOLDERS", holders(inCluster), "HOUSED", housed)).Thresholds(from("text"))).
		WithPanel(number(words{"Power", "Power of all GPUs of the chassis, from their energy counters.", "no energy readings"}, quarter, "watt",
			fill(`sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]) and on (cluster, node, UUID) HOUSED)`, "HOUSED", housed)).
			Thresholds(from("text"))).
		WithPanel(rows(words{
			"Holders",
			"One row for each tray and one column for each GPU. A cell shows the pod that holds or uses the GPU, or the GPU's fault.",
			"no GPU in this chassis",
		}, full, []column{{field: "tray", title: "Tray"}, {field: "place", title: "Place"}, {field: "holder", title: "Holder"}}, fill(`label_replace(label_replace(label_join(
  label_replace(STATES == 0, "holder", "LOST", "", "") or label_replace(STATES == -1, "holder", "not scraped", "", "") or HELD,
  "tray", " ", "tray_index", "node"), "place", "$1", "pci_bus_id", "[^:]*:(.*)"), "place", "module $1", "module_id", "(.+)")`,
			"STATES", states(housed), "HELD", held)).
			WithTransformation(transformation("sortBy", map[string]any{"sort": []map[string]any{{"field": "Place"}}})).
			WithTransformation(transformation("groupingToMatrix", map[string]any{"columnField": "Place", "rowField": "Tray", "valueField": "Holder", "emptyValue": "empty"})).
			SortBy(ascending("Tray")).
			Mappings([]dashboard.ValueMapping{
				state("LOST", "LOST", "red"), state("not scraped", "not scraped", "orange"), state("free", "free", "blue"),
			}).
			CellOptions(common.TableCellOptions{TableColorTextCellOptions: common.NewTableColorTextCellOptions()})).
		WithPanel(rows(words{"Trays", "Trays of the chassis, sorted by place.", "no GPU in this chassis"}, half, []column{
			{field: "tray_index", title: "Tray", width: 70},
			{field: "chassis_slot", title: "Slot", width: 70},
			{field: "node", title: "Node", link: toNode},
			{field: "Value #A", title: "GPUs present", width: 120},
			{field: "Value #B", title: "Pods", width: 80},
			{field: "Value #C", title: "Power", unit: "watt", width: 110},
		},
			fill(`sum by (cluster, node, tray_index, chassis_slot) (clamp_min(STATES, 0))`, "STATES", states(housed)),
			fill(`count by (cluster, node) (group by (cluster, node, pod_uid) (gpuledger_container_gpu_info{cluster=~"$cluster"} and on (cluster, node, UUID) HOUSED)) or 0 * group by (cluster, node) (HOUSED)`, "HOUSED", housed),
			fill(`sum by (cluster, node) (rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]) and on (cluster, node, UUID) HOUSED)`, "HOUSED", housed)).
			SortBy(ascending("Tray"))).
		WithPanel(lines(words{"GPUs present over time", "Present GPUs of each tray. A step down means that a GPU was lost or a board was removed.", "no GPU in this chassis"}, half, "short",
			fill(`sum by (node, tray_index) (gpuledger_gpu_present{cluster=~"$cluster"} * on (cluster, node, UUID) group_left (tray_index) HOUSED)`, "HOUSED", housed),
			"{{node}} tray {{tray_index}}").Decimals(0))
	return conditionPanels(b, inCluster, housed)
}
