package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// sumOfHours adds up the full hours that ended in the time range. It needs an offset, because the energy of an hour is
// known only in the next hour. The offset is a minute longer than an hour, because Grafana's time ranges of full hours
// end a millisecond early.
func sumOfHours(rule string) string {
	return fill(`sum_over_time(HOUR[$__range:1h] offset -61m)`, "HOUR", hour(rule))
}

// A rule computes the result for an hour during the next hour. Therefore, at a full hour, hour returns the result for
// the hour that ended one hour earlier.
func hour(rule string) string { return fill(`last_over_time(RULE[59m])`, "RULE", rule) }

func cost(kilowattHours string) string { return kilowattHours + ` * $price * $pue` }

const noRules = "no full hour yet, or the rules are not loaded"

func energy() *dashboard.DashboardBuilder {
	boards := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`), "KWH", kWh)
	charged := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`), "KWH", kWh)
	b := board(uidEnergy, "gpuledger / Energy and cost", "Energy, GPU hours and cost by namespace, workload and pod, with the idle part. This is the energy of the boards. CPUs, network and losses are included only if the PUE includes them.", "now-24h/h").
		Time("now-24h/h", "now-1h/h").
		Refresh("5m").
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_allocation_energy_joules_total{cluster=~"$cluster"}, namespace)`)).
		WithVariable(variable("workload", "Workload", `label_values(gpuledger:workload_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}, workload_name)`)).
		WithVariable(variable("pod", "Pod", `label_values(gpuledger_allocation_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace"}, pod)`)).
		WithVariable(text("price", "Price of a kWh", "0.20")).
		WithVariable(text("pue", "PUE", "1.3")).
		WithPanel(number(words{"Energy of all GPUs, full hours", "Energy of all boards in the full hours of the time range.", noRules}, quarter, "kwatth", boards).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Charged to pods, full hours", "Energy charged to pods of the selected namespaces. With all namespaces, the rest of the GPUs' energy is idle or used outside of pods.", noRules}, quarter, "kwatth", charged).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Cost of the pods, full hours", "Charged energy × price × PUE, in the currency of the price.", noRules}, quarter, "none", cost(charged)).
			Thresholds(from("text")).Decimals(2)).
		WithPanel(number(words{"Hours counted", "Full hours in the time range that the rules have recorded, for the cluster with the fewest hours. If the time range contains more hours, hours are missing in all panels except Pods; see GPULedgerEnergyHourMissing.", noRules}, quarter, "none",
			fill(`min(count_over_time(group by (cluster) (HOUR)[$__range:1h] offset -61m))`, "HOUR", hour(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`))).
			Thresholds(from("text"))).
		WithPanel(number(words{"Power", "Power of all GPUs at the end of the time range.", "no energy readings"}, third, "watt",
			`sum(rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).Thresholds(from("text"))).
		WithPanel(number(words{"Held and idle", "Idle power of the GPUs that pods of the selected namespaces hold, as a share of the power of all GPUs.", "no pod holds a GPU"}, third, "percentunit",
			`sum(rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace"}[$__rate_interval])) / sum(rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).
			Thresholds(from("green", step(0.1, "orange"), step(0.3, "red"))).Decimals(1)).
		WithPanel(number(words{"Free", "Power of the GPUs without a holder or user, as a share of the power of all GPUs.", "no energy readings"}, third, "percentunit",
			`sum(rate(gpuledger_board_unattributed_energy_joules_total{cluster=~"$cluster", reason="idle"}[$__rate_interval])) / sum(rate(gpuledger_board_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).
			Thresholds(from("green", step(0.1, "orange"), step(0.3, "red"))).Decimals(1))
	return energyWhose(b)
}

func energyWhose(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	namespaces := fill(`sum by (cluster, namespace) (HOURS) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
	workloads := fill(`label_replace(topk(100, sum by (cluster, namespace, workload_kind, workload_name) (HOURS) > 0) / KWH, "workload_name", "not known", "workload_name", "")`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:workload_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace", workload_name=~"$workload"}`))
	pods := fill(`topk(100, sum by (cluster, namespace, pod, pod_uid) (HOURS) > 0) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:allocation_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}`))
	units := fill(`topk(100, sum by (cluster, manager, unit) (HOURS) > 0) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:unit_allocation_energy_joules:increase1h{cluster=~"$cluster"}`))
	namespaceIdle := fill(`sum by (cluster, namespace) (HOURS) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:namespace_idle_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
	workloadIdle := fill(`label_replace(sum by (cluster, namespace, workload_kind, workload_name) (HOURS) / KWH, "workload_name", "not known", "workload_name", "")`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:workload_idle_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace", workload_name=~"$workload"}`))
	namespaceHours := fill(`sum by (cluster, namespace) (HOURS) / 3600`,
		"HOURS", sumOfHours(`gpuledger:namespace_gpu_seconds:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
	workloadHours := fill(`label_replace(sum by (cluster, namespace, workload_kind, workload_name) (HOURS) / 3600, "workload_name", "not known", "workload_name", "")`,
		"HOURS", sumOfHours(`gpuledger:workload_gpu_seconds:increase1h{cluster=~"$cluster", namespace=~"$namespace", workload_name=~"$workload"}`))
	return b.
		WithPanel(rows(words{"Namespaces, full hours", "Energy, its idle part and cost of each namespace in the full hours of the time range.", noRules}, full, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
			{field: "Value #C", title: "GPU hours"},
			{field: "Value #D", title: "Idle", unit: "kwatth"},
		}, namespaces, cost(namespaces), namespaceHours, namespaceIdle).SortBy(descending("Energy")).Decimals(2)).
		WithPanel(rows(words{"Workloads, full hours", "Energy, its idle part and cost of each workload in the full hours of the time range; the 100 with the most energy. Without the reconciler there are no workloads.", noRules}, full, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "workload_kind", title: "Kind", width: 110},
			{field: "workload_name", title: "Workload"},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
			{field: "Value #C", title: "GPU hours"},
			{field: "Value #D", title: "Idle", unit: "kwatth"},
		}, workloads, cost(workloads), workloadHours, workloadIdle).SortBy(descending("Energy")).Decimals(2)).
		WithPanel(stacked(words{
			"Power by use",
			"Power of all GPUs: work and idle power of pods and units (docs/machine.md), and unattributed power by reason (docs/metrics.md).",
			"no energy readings",
		}, full, "watt", `sum(rate(gpuledger_allocation_energy_joules_total{cluster=~"$cluster"}[$__rate_interval])) - sum(rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "pods at work").
			WithTarget(over("B", `sum(rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "held by pods, idle")).
			WithTarget(over("D", `sum(rate(gpuledger_unit_allocation_energy_joules_total{cluster=~"$cluster"}[$__rate_interval])) - sum(rate(gpuledger_unit_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "units at work")).
			WithTarget(over("E", `sum(rate(gpuledger_unit_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "held by units, idle")).
			WithTarget(over("C", `sum by (reason) (rate(gpuledger_board_unattributed_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "no pod: {{reason}}"))).
		WithPanel(rows(words{"Pods that hold idle GPUs", "The 50 pods with the most idle power, if it is at least 10 W.", "no pod holds an idle GPU"}, half, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "pod", title: "Pod", link: toPod},
			{field: "Value", title: "Idle power", unit: "watt"},
		}, `topk(50, sum by (cluster, namespace, pod) (rate(gpuledger_allocation_idle_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval])) > 10)`).
			SortBy(descending("Idle power"))).
		WithPanel(rows(words{"Pods, full hours", "Energy and cost of each pod in the full hours of the time range; the 100 with the most energy. For a time range of many days, select a namespace first.", noRules}, half, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "pod", title: "Pod"},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
		}, pods, cost(pods)).SortBy(descending("Energy")).Decimals(3)).
		WithPanel(rows(words{"Units that hold idle GPUs", "The 50 jobs, containers, services and users outside pods with the most idle power, if it is at least 10 W.", "no unit holds an idle GPU"}, half, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "manager", title: "Manager", width: 90},
			{field: "unit", title: "Unit"},
			{field: "Value", title: "Idle power", unit: "watt"},
		}, `topk(50, sum by (cluster, manager, unit) (rate(gpuledger_unit_allocation_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval])) > 10)`).
			SortBy(descending("Idle power"))).
		WithPanel(rows(words{"Units, full hours", "Energy and cost of each unit outside pods in the full hours of the time range; the 100 with the most energy.", noRules}, half, []column{
			{field: "cluster", title: "Cluster", width: 90},
			{field: "manager", title: "Manager", width: 90},
			{field: "unit", title: "Unit"},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
		}, units, cost(units)).SortBy(descending("Energy")).Decimals(3)).
		WithPanel(stacked(words{"Power by namespace", "Power charged to the pods of each namespace.", "no pod holds or uses a GPU"}, full, "watt",
			`sum by (namespace) (rate(gpuledger_allocation_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval]))`, "{{namespace}}").
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)))
}
