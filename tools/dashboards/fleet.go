package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The rules with the GPU seconds of each hour.
const hourlyGPUSeconds = `gpuledger:namespace_gpu_seconds:increase1h{cluster=~"$cluster"}`

// fleet shows capacity and condition of all GPUs, for planning.
func fleet() *dashboard.DashboardBuilder {
	const (
		present   = `count(gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		allocated = `sum(rate(gpuledger_allocation_gpu_seconds_total{cluster=~"$cluster"}[$__rate_interval]) and on (UUID) gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		active    = `sum(clamp_max(sum by (UUID) (rate(gpuledger_allocation_active_seconds_total{cluster=~"$cluster"}[$__rate_interval])), 1) and on (UUID) gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`
		noGPU     = "no GPU is present, or the record is not scraped"
	)
	byModel := func(expr string) string {
		return fill(`sum by (model) ((EXPR) * on (UUID) group_left (model) topk by (UUID) (1, group by (UUID, model) (gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})))`, "EXPR", expr)
	}
	// Sampled hourly: a quarter of all minutes would take too long to read.
	failed := func(counter, labels string) string {
		return fill(`sum by (LABELS) (((sum by (UUID) (max_over_time(COUNTER{cluster=~"$cluster"}[$__range:1h])) > bool 0) > 0)
  * on (UUID) group_left (model, chassis_serial, chassis_slot) topk by (UUID) (1, group by (UUID, model, chassis_serial, chassis_slot) (last_over_time(gpuledger:placement_info:present1h{cluster=~"$cluster", model=~"$model"}[$__range]))))`,
			"LABELS", labels, "COUNTER", counter)
	}
	return board(uidFleet, "gpuledger / Fleet", "Capacity and condition of all GPUs, for planning: what is there, allocated, free, failing and to be returned.", "now-90d").
		Refresh("15m").
		WithVariable(variable("model", "Model", `label_values(gpuledger_placement_info{cluster=~"$cluster"}, model)`)).
		WithPanel(number(words{"GPUs present", "GPUs that a driver lists now.", noGPU}, sixth, "short", present).Thresholds(from("text"))).
		WithPanel(number(words{"GPUs allocated", "GPUs that pods hold now; a shared GPU counts by the share that is held.", noGPU}, sixth, "short",
			allocated+` or 0 * `+present).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"GPUs free", "GPUs present less GPUs allocated.", noGPU}, sixth, "short",
			present+` - (`+allocated+` or 0 * `+present+`)`).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Most allocated in an hour", "GPUs allocated on average over the busiest full hour of the time range, all models.", noRules}, sixth, "short",
			fill(`max_over_time((sum(HOUR) / 3600)[$__range:1h])`, "HOUR", hour(hourlyGPUSeconds))).Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Allocated share", "GPU hours that pods held in the full hours of the time range, of the GPU hours that were present, all models.", noRules}, sixth, "percentunit",
			fill(`sum(sum_over_time(HOUR[$__range:1h])) / 3600 / sum(count_over_time(gpuledger:placement_info:present1h{cluster=~"$cluster"}[$__range]))`, "HOUR", hour(hourlyGPUSeconds))).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"GPUs active", "GPUs on which pods work now. The driver does not report activity of MPS clients, nor of MIG instances before Hopper.", noGPU}, sixth, "short",
			active+` or 0 * `+present).Thresholds(from("text")).Decimals(1)).
		WithPanel(rows(words{"Models", "GPUs of each model now.", noGPU}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "Present", width: 90},
			{field: "Value #B", title: "Allocated", width: 100},
			{field: "Value #C", title: "Active", width: 90},
			{field: "Value #D", title: "Power", unit: "watt", width: 110},
		},
			`count by (model) (gpuledger_placement_info{cluster=~"$cluster", model=~"$model"})`,
			byModel(`sum by (UUID) (rate(gpuledger_allocation_gpu_seconds_total{cluster=~"$cluster"}[$__rate_interval]))`),
			byModel(`clamp_max(sum by (UUID) (rate(gpuledger_allocation_active_seconds_total{cluster=~"$cluster"}[$__rate_interval])), 1)`),
			byModel(`max by (UUID) (rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`)).
			SortBy(descending("Present")).Decimals(1)).
		WithPanel(lines(words{"GPUs present and allocated", "GPUs present and GPUs allocated, on average over each full hour.", noRules}, half, "short",
			`count(group by (UUID) (present_over_time(gpuledger:placement_info:present1h{cluster=~"$cluster"}[1h])))`, "present").
			WithTarget(over("B", fill(`sum(HOUR) / 3600`, "HOUR", hour(hourlyGPUSeconds)), "allocated")).Interval("1h")).
		WithPanel(rows(words{"Boards to return or inspect", "GPUs that the driver lost, or whose memory has no spare rows left.", "none"}, half, []column{
			{field: "serial", title: "Board", link: toLife},
			{field: "model", title: "Model"},
			{field: "node", title: "Node", link: toNode},
			{field: "chassis_slot", title: "Slot", width: 70},
			{field: "fault", title: "Fault"},
		}, fill(`label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_present == 0), "fault", "lost", "", "")
  or label_replace(group by (LABELS) (gpuledger_gpu_info{cluster=~"$cluster", model=~"$model"} and on (cluster, node, UUID) gpuledger_gpu_row_remap_failure == 1), "fault", "no spare memory rows", "", "")`,
			"LABELS", "cluster, node, UUID, serial, model, chassis_serial, chassis_slot")).SortBy(ascending("Node"))).
		WithPanel(rows(words{"Failures by model", "GPUs of each model that had XID errors or losses since the boot of their node, at any time in the range.", "no failure"}, half, []column{
			{field: "model", title: "Model"},
			{field: "Value #A", title: "XID errors", width: 120},
			{field: "Value #B", title: "Losses", width: 100},
		}, failed("gpuledger_board_xid_errors_total", "model"), failed("gpuledger_board_losses_total", "model")).SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(rows(words{"Failures by slot", "GPUs that had XID errors or losses, by chassis and slot. A slot that fails with every board points to the machine.", "no failure"}, half, []column{
			{field: "chassis_serial", title: "Chassis", link: toChassis},
			{field: "chassis_slot", title: "Slot", width: 70},
			{field: "Value #A", title: "XID errors", width: 120},
			{field: "Value #B", title: "Losses", width: 100},
		}, failed("gpuledger_board_xid_errors_total", "chassis_serial, chassis_slot"), failed("gpuledger_board_losses_total", "chassis_serial, chassis_slot")).
			SortBy(descending("XID errors")).Decimals(0)).
		WithPanel(stacked(words{"Power by use", "Power charged to pods, its idle part, and power that no pod is charged for.", "no energy was read"}, half, "watt",
			`sum(rate(gpuledger_allocation_energy_joules_total{cluster=~"$cluster"}[$__rate_interval])) - sum(rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "pods at work").
			WithTarget(over("B", `sum(rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "held by pods, idle")).
			WithTarget(over("C", `sum(rate(gpuledger_board_unattributed_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "no pod")).Interval("1m"))
}
