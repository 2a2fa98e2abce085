package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// fleetHour adds up the results of a rule for the previous hour.
func fleetHour(rule string) string { return `sum(` + hour(rule+`{cluster=~"$cluster"}`) + `)` }

// modelHour is like [fleetHour], but for a rule with the label model.
func modelHour(rule string) string {
	return `sum(` + hour(rule+`{cluster=~"$cluster", model=~"$model"}`) + `)`
}

// heldNow returns the GPUs that pods or units hold, wholly or in part. activeNow returns the share of the time in which
// each GPU works. The intervals are fixed, because Grafana's $__rate_interval grows to hours in a range of months. The
// record is scraped every minute. A GPU stays present for five minutes after the last scrape.
const (
	heldNow   = `((rate(gpuledger_allocation_gpu_seconds_total{cluster=~"$cluster"}[6m]) or rate(gpuledger_unit_allocation_gpu_seconds_total{cluster=~"$cluster"}[6m])) > 0)`
	activeNow = `clamp_max(sum by (cluster, UUID) (rate(gpuledger_allocation_active_seconds_total{cluster=~"$cluster"}[4m]) or rate(gpuledger_unit_allocation_active_seconds_total{cluster=~"$cluster"}[4m])), 1)`
)

// fleet shows the capacity and the condition of all GPUs, for planning.
func fleet() *dashboard.DashboardBuilder {
	const (
		gpus      = `group by (cluster, UUID, model) (gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		present   = `count(` + gpus + `)`
		allocated = `(count(` + gpus + ` and on (cluster, UUID) ` + heldNow + `) or 0 * ` + present + `)`
		active    = `(sum(` + activeNow + ` and on (cluster, UUID) ` + gpus + `) or 0 * ` + present + `)`
		noGPU     = "no GPU is present, or the record is not scraped"
		noFailure = "no failure in the record"
	)
	hourlyGPUs, hourlyHeld := modelHour("gpuledger:fleet_gpus:present1h"), `sum(`+hour(`{__name__=~"gpuledger:(namespace|user)_gpu_seconds:increase1h", cluster=~"$cluster", model=~"$model"}`)+`)`
	board1h, pods1h, idle1h := fleetHour("gpuledger:fleet_energy_joules:increase1h"), fleetHour("gpuledger:namespace_energy_joules:increase1h"), fleetHour("gpuledger:namespace_idle_energy_joules:increase1h")
	units1h, unitsIdle1h := fleetHour("gpuledger:user_energy_joules:increase1h"), fleetHour("gpuledger:user_idle_energy_joules:increase1h")
	byModel := func(expr string) string {
		return fill(`sum by (model) (topk by (cluster, UUID) (1, GPUS) * on (cluster, UUID) group_left () (EXPR)) or 0 * count by (model) (GPUS)`, "EXPR", expr, "GPUS", gpus)
	}
	// The place of a lost GPU is known from the earlier record. Until the next boot, the exporter also reports it.
	failed := func(failure, by, labels string) string {
		return fill(`sum by (BY) (group by (cluster, node, UUID) (ROSE)
  * on (cluster, node, UUID) group_left (LABELS) topk by (cluster, node, UUID) (1, group by (cluster, node, UUID, LABELS) (
    last_over_time(gpuledger:placement_info:present1h{cluster=~"$cluster", model=~"$model"}[$__range]) or gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"})))`,
			"BY", by, "ROSE", rose("gpuledger_board_"+failure+"_total", "gpuledger:board_"+failure+":increase1h"), "LABELS", labels)
	}
	failedModel := func(failure string) string { return named(failed(failure, "model", "model"), "model") }
	failedSlot := func(failure string) string {
		return named(failed(failure, "cluster, node, chassis_serial, chassis_slot", "chassis_serial, chassis_slot"), "chassis_serial", "chassis_slot")
	}
	return board(uidFleet, "gpuledger / Fleet", "Capacity and condition of all GPUs, for planning: GPUs that are present, allocated or free, GPUs that fail, and boards to return.", "now-90d").
		Refresh("15m").
		WithVariable(variable("model", "Model", `label_values(gpuledger_placement_info{cluster=~"$cluster"}, model)`)).
		WithPanel(number(words{"GPUs present", "GPUs that a driver lists now.", noGPU}, sixth, "short", present).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs allocated", "GPUs that pods or units hold now, at least in part.", noGPU}, sixth, "short",
			allocated).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs free", "GPUs present minus GPUs allocated. No pod or unit holds any part of these GPUs.", noGPU}, sixth, "short",
			present+` - `+allocated).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs free at the peak", "GPUs that no pod or unit held, even in part, in the busiest full hour of the time range.", noRules}, sixth, "short",
			fill(`min_over_time(FREE[$__range:1h])`, "FREE", modelHour("gpuledger:fleet_gpus:free1h"))).Thresholds(from("text"))).
		WithPanel(number(words{"Allocated share", "GPU hours held by pods and units in the full hours of the time range, as a share of the GPU hours in which GPUs were present. A shared GPU counts by the share that is held.", noRules}, sixth, "percentunit",
			fill(`clamp_max(sum_over_time(HELD[$__range:1h]) / 3600 / sum_over_time(GPUS[$__range:1h]), 1)`, "GPUS", hourlyGPUs, "HELD", hourlyHeld)).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Active share", "Share of the time in which pods and units currently work on the present GPUs. The driver does not report the activity of MPS clients, or of MIG instances before Hopper.", noGPU}, sixth, "percentunit",
			active+` / `+present).Thresholds(from("text")).Decimals(1)).
		WithPanel(rows(words{"Models", "Present GPUs of each model, the GPUs that pods or units hold at least in part, and the share of the time in which the GPUs work.", noGPU}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "Present", width: 90},
			{field: "Value #B", title: "Allocated", width: 100},
			{field: "Value #C", title: "Active", unit: "percentunit", width: 90},
			{field: "Value #D", title: "Power", unit: "watt", width: 110},
		},
			`count by (model) (`+gpus+`)`,
			byModel(`group by (cluster, UUID) `+heldNow),
			`(`+byModel(activeNow)+`) / on (model) count by (model) (`+gpus+`)`,
			byModel(`max by (cluster, UUID) (rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[4m]))`)).
			SortBy(descending("Present"))).
		WithPanel(lines(words{"GPUs present and allocated", "GPUs present in each full hour, and the average number of GPUs that pods and units held in this hour. A shared GPU counts by the share that is held.", noRules}, half, "short",
			hourlyGPUs, "present").
			WithTarget(over("B", fill(`HELD / 3600 <= GPUS or GPUS and HELD`, "GPUS", hourlyGPUs, "HELD", hourlyHeld), "allocated")).Interval("1h")).
		WithPanel(rows(words{"Boards to return or inspect", "GPUs that the driver lost, that have few or no spare rows left in a memory bank, that have too many SRAM errors, or for which the driver requires a recovery.", "none"}, half, []column{
			{field: "cluster", title: "Cluster", width: 80},
			{field: "node", title: "Node", link: toNode},
			{field: "serial", title: "Board", link: toLife, width: 130},
			{field: "model", title: "Model", width: 200},
			{field: "chassis_slot", title: "Slot", width: 50},
			{field: "fault", title: "Fault", width: 115},
		}, fill(`label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_present == 0), "fault", "lost", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_row_remap_failure == 1), "fault", "no spare rows", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_sram_ecc_threshold_exceeded == 1), "fault", "SRAM errors", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_memory_banks{spare_rows=~"low|none"} > 0), "fault", "few spare rows", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_recovery_action_info{action!="none"}), "fault", "recovery", "", "")`,
			"LABELS", "cluster, node, UUID, serial, model, chassis_serial, chassis_slot")).SortBy(ascending("Node"))).
		WithPanel(rows(words{"Failures by model", "GPUs of each model that had XID errors or were lost in the time range, or up to two hours before it.", noFailure}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "XID errors", width: 120},
			{field: "Value #B", title: "Losses", width: 100},
		}, failedModel("xid_errors"), failedModel("losses")).SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(rows(words{"Failures by slot", "GPUs that had XID errors or were lost in the time range, or up to two hours before it, by the node, chassis and slot in which they were at that time. If every board in a slot fails, the cause is probably the machine.", noFailure}, half, []column{
			{field: "cluster", title: "Cluster", width: 100},
			{field: "node", title: "Node", link: toNode},
			{field: "chassis_serial", title: "Chassis", link: toChassis, width: 140},
			{field: "chassis_slot", title: "Slot", width: 60},
			{field: "Value #A", title: "XID errors", width: 100},
			{field: "Value #B", title: "Losses", width: 80},
		}, failedSlot("xid_errors"), failedSlot("losses")).
			SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(stacked(words{"Power by use", "Power charged to pods and units, the idle part of this power, and the remaining power of the GPUs. Each value is the average over a full hour.", noRules}, half, "watt",
			fill(`(PODS - IDLE) / 3600`, "PODS", pods1h, "IDLE", idle1h), "pods at work").
			WithTarget(over("B", idle1h+` / 3600`, "held by pods, idle")).
			WithTarget(over("C", fill(`(BOARDS - (PODS or vector(0)) - (UNITS or vector(0))) / 3600`, "BOARDS", board1h, "PODS", pods1h, "UNITS", units1h), "no owner")).
			WithTarget(over("D", fill(`(UNITS - IDLE) / 3600`, "UNITS", units1h, "IDLE", unitsIdle1h), "units at work")).
			WithTarget(over("E", unitsIdle1h+` / 3600`, "held by units, idle")).Interval("1h"))
}
