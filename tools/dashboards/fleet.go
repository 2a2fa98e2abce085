package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// fleetHour returns the sum of a rule for the previous hour.
func fleetHour(rule string) string { return `sum(` + hour(rule+`{cluster=~"$cluster"}`) + `)` }

// modelHour returns the sum of a rule with the label model for the previous hour.
func modelHour(rule string) string {
	return `sum(` + hour(rule+`{cluster=~"$cluster", model=~"$model"}`) + `)`
}

// GPU seconds per second of each pod and unit, and the part with work.
const (
	heldNow   = `rate(gpuledger_allocation_gpu_seconds_total{cluster=~"$cluster"}[$__rate_interval]) or rate(gpuledger_unit_allocation_gpu_seconds_total{cluster=~"$cluster"}[$__rate_interval])`
	activeNow = `rate(gpuledger_allocation_active_seconds_total{cluster=~"$cluster"}[$__rate_interval]) or rate(gpuledger_unit_allocation_active_seconds_total{cluster=~"$cluster"}[$__rate_interval])`
)

// fleet shows capacity and condition of all GPUs, for planning.
func fleet() *dashboard.DashboardBuilder {
	const (
		present   = `count(gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		allocated = `sum((` + heldNow + `) and on (UUID) gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		active    = `sum(clamp_max(sum by (UUID) (` + activeNow + `), 1) and on (UUID) gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		noGPU     = "no GPU is present, or the record is not scraped"
		noFailure = "no failure in the record"
	)
	hourlyGPUs, hourlyHeld := modelHour("gpuledger:fleet_gpus:present1h"), `sum(`+hour(`{__name__=~"gpuledger:(namespace|user)_gpu_seconds:increase1h", cluster=~"$cluster", model=~"$model"}`)+`)`
	board1h, pods1h, idle1h := fleetHour("gpuledger:fleet_energy_joules:increase1h"), fleetHour("gpuledger:namespace_energy_joules:increase1h"), fleetHour("gpuledger:namespace_idle_energy_joules:increase1h")
	units1h, unitsIdle1h := fleetHour("gpuledger:user_energy_joules:increase1h"), fleetHour("gpuledger:user_idle_energy_joules:increase1h")
	byModel := func(expr string) string {
		return fill(`sum by (model) ((EXPR) * on (UUID) group_left (model) topk by (UUID) (1, group by (UUID, model) (gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})))`, "EXPR", expr)
	}
	// A lost GPU has its place in the record of the past, and in the exporter's memory until the next boot.
	failed := func(failure, labels string) string {
		return fill(`sum by (LABELS) (group by (cluster, node, UUID) (ROSE)
  * on (cluster, node, UUID) group_left (LABELS) topk by (cluster, node, UUID) (1, group by (cluster, node, UUID, LABELS) (
    last_over_time(gpuledger:placement_info:present1h{cluster=~"$cluster", model=~"$model"}[$__range]) or gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"})))`,
			"ROSE", rose("gpuledger_board_"+failure+"_total", "gpuledger:board_"+failure+":increase1h"), "LABELS", labels)
	}
	return board(uidFleet, "gpuledger / Fleet", "Capacity and condition of all GPUs, for planning: what is there, allocated, free, failing and to be returned.", "now-90d").
		Refresh("15m").
		WithVariable(variable("model", "Model", `label_values(gpuledger_placement_info{cluster=~"$cluster"}, model)`)).
		WithPanel(number(words{"GPUs present", "GPUs that a driver lists now.", noGPU}, sixth, "short", present).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs allocated", "GPUs that pods and units hold now; a shared GPU counts by the share that is held.", noGPU}, sixth, "short",
			allocated+` or 0 * `+present).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"GPUs free", "GPUs present less GPUs allocated.", noGPU}, sixth, "short",
			present+` - (`+allocated+` or 0 * `+present+`)`).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"GPUs free at the peak", "GPUs that no pod and no unit held in the busiest full hour of the time range, on average over that hour.", noRules}, sixth, "short",
			fill(`min_over_time((GPUS - (HELD or vector(0)) / 3600)[$__range:1h])`, "GPUS", hourlyGPUs, "HELD", hourlyHeld)).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Allocated share", "GPU hours that pods and units held in the full hours of the time range, of the GPU hours that were present.", noRules}, sixth, "percentunit",
			fill(`sum_over_time(HELD[$__range:1h]) / 3600 / sum_over_time(GPUS[$__range:1h])`, "GPUS", hourlyGPUs, "HELD", hourlyHeld)).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"GPUs active", "GPUs on which pods or units work now. The driver does not report activity of MPS clients, nor of MIG instances before Hopper.", noGPU}, sixth, "short",
			active+` or 0 * `+present).Thresholds(from("text")).Decimals(1)).
		WithPanel(rows(words{"Models", "GPUs of each model now.", noGPU}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "Present", width: 90},
			{field: "Value #B", title: "Allocated", width: 100},
			{field: "Value #C", title: "Active", width: 90},
			{field: "Value #D", title: "Power", unit: "watt", width: 110},
		},
			`count by (model) (gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`,
			byModel(`sum by (UUID) (`+heldNow+`)`),
			byModel(`clamp_max(sum by (UUID) (`+activeNow+`), 1)`),
			byModel(`max by (UUID) (rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`)).
			SortBy(descending("Present")).Decimals(1)).
		WithPanel(lines(words{"GPUs present and allocated", "GPUs present and GPUs allocated, on average over each full hour.", noRules}, half, "short",
			hourlyGPUs, "present").
			WithTarget(over("B", hourlyHeld+` / 3600`, "allocated")).Interval("1h")).
		WithPanel(rows(words{"Boards to return or inspect", "GPUs that the driver lost, or whose memory has no spare rows left.", "none"}, half, []column{
			{field: "serial", title: "Board", link: toLife},
			{field: "model", title: "Model"},
			{field: "node", title: "Node", link: toNode},
			{field: "chassis_slot", title: "Slot", width: 70},
			{field: "fault", title: "Fault"},
		}, fill(`label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_present == 0), "fault", "lost", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_row_remap_failure == 1), "fault", "no spare memory rows", "", "")`,
			"LABELS", "cluster, node, UUID, serial, model, chassis_serial, chassis_slot")).SortBy(ascending("Node"))).
		WithPanel(rows(words{"Failures by model", "GPUs of each model that had XID errors or were lost in the time range.", noFailure}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "XID errors", width: 120},
			{field: "Value #B", title: "Losses", width: 100},
		}, failed("xid_errors", "model"), failed("losses", "model")).SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(rows(words{"Failures by slot", "GPUs that had XID errors or were lost, by their chassis and slot at that time. A slot that fails with every board points to the machine.", noFailure}, half, []column{
			{field: "chassis_serial", title: "Chassis", link: toChassis},
			{field: "chassis_slot", title: "Slot", width: 70},
			{field: "Value #A", title: "XID errors", width: 120},
			{field: "Value #B", title: "Losses", width: 100},
		}, failed("xid_errors", "chassis_serial, chassis_slot"), failed("losses", "chassis_serial, chassis_slot")).
			SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(stacked(words{"Power by use", "Power charged to pods and units, its idle part, and the rest, on average over each full hour.", noRules}, half, "watt",
			fill(`(PODS - IDLE) / 3600`, "PODS", pods1h, "IDLE", idle1h), "pods at work").
			WithTarget(over("B", idle1h+` / 3600`, "held by pods, idle")).
			WithTarget(over("C", fill(`(BOARDS - (PODS or vector(0)) - (UNITS or vector(0))) / 3600`, "BOARDS", board1h, "PODS", pods1h, "UNITS", units1h), "no owner")).
			WithTarget(over("D", fill(`(UNITS - IDLE) / 3600`, "UNITS", units1h, "IDLE", unitsIdle1h), "units at work")).
			WithTarget(over("E", unitsIdle1h+` / 3600`, "held by units, idle")).Interval("1h"))
}
