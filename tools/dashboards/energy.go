package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// sumOfHours adds up the full hours that ended in the time range. An hour's joules are
// known in the next one, hence the offset; of its minutes one is for Grafana, in which a
// time range of full hours ends a millisecond before it should.
func sumOfHours(rule string) string {
	return fill(`sum_over_time(HOUR[$__range:1h] offset -61m)`, "HOUR", hour(rule))
}

// hour is what a rule said of the hour before, asked at a full hour. The first minute of
// each hour is left out, in which a rule still says what the hour before that one had.
func hour(rule string) string { return fill(`last_over_time(RULE[59m])`, "RULE", rule) }

// cost is what joules cost: the price of a kilowatt-hour, and what cooling and
// distribution add.
func cost(kilowattHours string) string { return kilowattHours + ` * $price * $pue` }

const noRules = "no full hour yet, or the rules are not loaded"

func energy() *dashboard.DashboardBuilder {
	boards := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`), "KWH", kWh)
	charged := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`), "KWH", kWh)
	b := board(uidEnergy, "gpuledger / Energy and cost", "How many kilowatt-hours, whose, what they cost, and what was wasted. It is the boards' energy: not CPUs, network, or losses, but for the PUE.", "now-24h/h").
		Time("now-24h/h", "now-1h/h").
		Refresh("5m").
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_allocation_energy_joules_total{cluster=~"$cluster"}, namespace)`)).
		WithVariable(variable("workload", "Workload", `label_values(gpuledger:workload_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}, workload_name)`)).
		WithVariable(variable("pod", "Pod", `label_values(gpuledger_allocation_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace"}, pod)`)).
		WithVariable(text("price", "Price of a kWh", "0.20")).
		WithVariable(text("pue", "PUE", "1.3")).
		WithPanel(number(words{"Energy of all GPUs, full hours", "What all boards used in the full hours of the time range, whoever it is charged to.", noRules}, quarter, "kwatth", boards).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Charged to pods, full hours", "What the pods of the chosen namespaces are charged for. With all namespaces chosen, the rest of the energy of all GPUs is idle, or used from outside of pods.", noRules}, quarter, "kwatth", charged).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Cost of the pods, full hours", "The charged energy at the price and with the PUE at the top, in the price's currency.", noRules}, quarter, "none", cost(charged)).
			Thresholds(from("text")).Decimals(2)).
		WithPanel(number(words{"Hours counted", "Full hours of the time range that the rules know; of several clusters, in the one with the fewest. Fewer than the time range has: an hour is missing in all energy here but that of single pods, see GPULedgerEnergyHourMissing.", noRules}, quarter, "none",
			fill(`min(count_over_time(group by (cluster) (HOUR)[$__range:1h] offset -61m))`, "HOUR", hour(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`))).
			Thresholds(from("text"))).
		WithPanel(number(words{"Power", "What all GPUs draw together, at the end of the time range.", "no energy was read"}, third, "watt",
			`sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).Thresholds(from("text"))).
		WithPanel(number(words{"Held and idle", "Part of that power that is idle power of GPUs which pods of the chosen namespaces hold: what these would draw with nothing running on them.", "no pod holds a GPU"}, third, "percentunit",
			`sum(rate(gpuledger_container_idle_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace"}[$__rate_interval])) / sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).
			Thresholds(from("green", step(0.1, "orange"), step(0.3, "red"))).Decimals(1)).
		WithPanel(number(words{"Held by nobody", "Part of that power that goes to GPUs which nobody holds or uses.", "no energy was read"}, third, "percentunit",
			`sum(rate(gpuledger_unattributed_energy_joules_total{cluster=~"$cluster", reason="idle"}[$__rate_interval])) / sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`).
			Thresholds(from("green", step(0.1, "orange"), step(0.3, "red"))).Decimals(1))
	return energyWhose(b)
}

// energyWhose adds who used it, and who wasted it.
func energyWhose(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	namespaces := fill(`sum by (cluster, namespace) (HOURS) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
	workloads := fill(`label_replace(topk(100, sum by (cluster, namespace, workload_kind, workload_name) (HOURS) > 0) / KWH, "workload_name", "not known", "workload_name", "")`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:workload_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace", workload_name=~"$workload"}`))
	pods := fill(`topk(100, sum by (cluster, namespace, pod, pod_uid) (HOURS) > 0) / KWH`, "KWH", kWh,
		"HOURS", sumOfHours(`gpuledger:allocation_energy_joules:increase1h{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}`))
	namespaceHours := fill(`sum by (cluster, namespace) (HOURS) / 3600`,
		"HOURS", sumOfHours(`gpuledger:namespace_gpu_seconds:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
	workloadHours := fill(`label_replace(sum by (cluster, namespace, workload_kind, workload_name) (HOURS) / 3600, "workload_name", "not known", "workload_name", "")`,
		"HOURS", sumOfHours(`gpuledger:workload_gpu_seconds:increase1h{cluster=~"$cluster", namespace=~"$namespace", workload_name=~"$workload"}`))
	return b.
		WithPanel(rows(words{"Namespaces, full hours", "Energy and cost of each namespace in the full hours of the time range.", noRules}, 10, []column{
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
			{field: "Value #C", title: "GPU hours"},
		}, namespaces, cost(namespaces), namespaceHours).SortBy(descending("Energy")).Decimals(2)).
		WithPanel(rows(words{"Workloads, full hours", "Energy and cost of each workload in the full hours of the time range, of the 100 that used most. Without the reconciler no workload is known: see the pods below.", noRules}, 14, []column{
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "workload_kind", title: "Kind", width: 110},
			{field: "workload_name", title: "Workload"},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
			{field: "Value #C", title: "GPU hours"},
		}, workloads, cost(workloads), workloadHours).SortBy(descending("Energy")).Decimals(2)).
		WithPanel(stacked(words{
			"Where the power goes",
			"Power of all GPUs: what pods work with, the idle power of what they hold, and what no pod is charged for, by reason: docs/metrics.md says what each means.",
			"no energy was read",
		}, full, "watt", `sum(rate(gpuledger_container_energy_joules_total{cluster=~"$cluster"}[$__rate_interval])) - sum(rate(gpuledger_container_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "pods at work").
			WithTarget(over("B", `sum(rate(gpuledger_container_idle_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "held by pods, idle")).
			WithTarget(over("C", `sum by (reason) (rate(gpuledger_unattributed_energy_joules_total{cluster=~"$cluster"}[$__rate_interval]))`, "no pod: {{reason}}"))).
		WithPanel(rows(words{"Pods that hold idle GPUs", "The 50 pods that are charged most idle power, of those with 10 W or more: whom to ask first.", "no pod holds an idle GPU"}, half, []column{
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "pod", title: "Pod", link: toPod},
			{field: "Value", title: "Idle power", unit: "watt"},
		}, `topk(50, sum by (cluster, namespace, pod) (rate(gpuledger_container_idle_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval])) > 10)`).
			SortBy(descending("Idle power"))).
		WithPanel(rows(words{"Pods, full hours", "Energy and cost of each pod in the full hours of the time range, of the 100 that used most. Choose a namespace before you ask for many days.", noRules}, half, []column{
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "pod", title: "Pod"},
			{field: "Value #A", title: "Energy", unit: "kwatth"},
			{field: "Value #B", title: "Cost"},
		}, pods, cost(pods)).SortBy(descending("Energy")).Decimals(3)).
		WithPanel(stacked(words{"Power by namespace", "Power that the pods of each namespace are charged for.", "no pod holds or uses a GPU"}, full, "watt",
			`sum by (namespace) (rate(gpuledger_container_energy_joules_total{cluster=~"$cluster", namespace=~"$namespace", pod=~"$pod"}[$__rate_interval]))`, "{{namespace}}").
			Tooltip(common.NewVizTooltipOptionsBuilder().Mode(common.TooltipDisplayModeMulti).Sort(common.SortOrderDescending)))
}
