package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// The link leads to a page that describes commands with the same answers.
func commands(title, tooltip string) *dashboard.DashboardLinkBuilder {
	return dashboard.NewDashboardLinkBuilder(title).Type(dashboard.DashboardLinkTypeLink).Icon("doc").TargetBlank(true).
		Tooltip(tooltip).Url("https://github.com/gpuledger/gpuledger/blob/main/docs/ask.md")
}

// byTeam adds up a value by team. The team of a namespace is the label team from kube-state-metrics. The team of a unit
// is its account.
func byTeam(amount string) string {
	return fill(`sum by (cluster, label_team) (
  VALUES * on (cluster, namespace) group_left (label_team) (
    topk by (cluster, namespace) (1, max by (cluster, namespace, label_team) (timestamp(LABELS) or count_over_time(LABELS[$__range]))) ^ 0
    or on (cluster, namespace) 0 * VALUES + 1)
  or label_replace(UNITS, "label_team", "$1", "account", "(.+)"))`,
		"VALUES", ofNamespace(amount), "UNITS", ofUser(amount), "LABELS", `kube_namespace_labels{cluster=~"$cluster"}`)
}

// ofNamespace adds up the results of a rule about namespaces over the full hours in the time range.
func ofNamespace(amount string) string {
	return fill(`sum by (cluster, namespace) (HOURS)`, "HOURS", sumOfHours(`gpuledger:namespace_`+amount+`:increase1h{cluster=~"$cluster", namespace=~"$namespace"}`))
}

// ofUser adds up the results of a rule about users over the full hours in the time range.
func ofUser(amount string) string {
	return fill(`sum by (cluster, manager, account, user) (HOURS)`, "HOURS", sumOfHours(`gpuledger:user_`+amount+`:increase1h{cluster=~"$cluster", manager=~"$manager", user=~"$user"}`))
}

// amounts returns five queries: the energy and its idle part in kilowatt-hours, the GPU hours, the active GPU hours,
// and the cost.
func amounts(of func(amount string) string) []string {
	energy := `(` + of("energy_joules") + `) / ` + kWh
	return []string{energy, `(` + of("idle_energy_joules") + `) / ` + kWh, `(` + of("gpu_seconds") + `) / 3600`, `(` + of("active_seconds") + `) / 3600`, cost(energy)}
}

// statement shows one month by team and namespace, like the command gpuledger-archive statement.
func statement() *dashboard.DashboardBuilder {
	boards := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`), "KWH", kWh)
	pods := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster"}`), "KWH", kWh)
	units := fill(`sum(HOURS) / KWH`, "HOURS", sumOfHours(`gpuledger:user_energy_joules:increase1h{cluster=~"$cluster"}`), "KWH", kWh)
	charged := fill(`((PODS or 0 * BOARDS) + (UNITS or 0 * BOARDS))`, "PODS", pods, "UNITS", units, "BOARDS", boards)
	return board(uidStatement, "gpuledger / Statement", "Shows a month by team, namespace and user of units, like gpuledger-archive statement. This is the energy of the boards. CPUs, network and losses are included only if the PUE includes them.", "now-1M/M").
		Time("now-1M/M", "now-1M/M").
		Refresh("1h").
		Link(commands("Commands", "gpuledger-archive statement --month=2026-10 --by=team prints this statement, with money, carbon, FOCUS rows and the missing hours")).
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger:namespace_energy_joules:increase1h{cluster=~"$cluster"}, namespace)`)).
		WithVariable(variable("manager", "Manager of units", `label_values(gpuledger:user_energy_joules:increase1h{cluster=~"$cluster"}, manager)`)).
		WithVariable(variable("user", "User of units", `label_values(gpuledger:user_energy_joules:increase1h{cluster=~"$cluster", manager=~"$manager"}, user)`)).
		WithVariable(text("price", "Price of a kWh", "0.20")).
		WithVariable(text("pue", "PUE", "1.3")).
		WithPanel(number(words{"Energy of all boards", "Energy of all boards in the full hours of the month. This energy is the total of the statement.", noRules}, quarter, "kwatth", boards).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Unattributed", "Energy of all boards for which no pod or unit is charged. The line (unattributed) of the statement contains this energy.", noRules}, quarter, "kwatth", boards+` - `+charged).
			Thresholds(from("text")).Decimals(1)).
		WithPanel(number(words{"Cost of pods and units", "Energy charged to all pods and units × price × PUE, in the currency of the price.", noRules}, quarter, "none", cost(charged)).
			Thresholds(from("text")).Decimals(2)).
		WithPanel(number(words{"Hours counted", "Full hours of the month that the rules have recorded, for the cluster with the fewest hours. If the month contains more hours, the statement is incomplete.", noRules}, quarter, "none",
			fill(`min(count_over_time(group by (cluster) (HOUR)[$__range:1h] offset -61m))`, "HOUR", hour(`gpuledger:fleet_energy_joules:increase1h{cluster=~"$cluster"}`))).
			Thresholds(from("text"))).
		WithPanel(rows(words{"Teams", "Energy, its idle part, GPU hours and cost of each team. The team is the label team of a namespace (from kube-state-metrics), or the account of a Slurm job.", noRules}, full, billed([]column{
			{field: "cluster", title: "Cluster"},
			{field: "label_team", title: "Team"},
		}), amounts(byTeam)...).SortBy(descending("Energy")).Decimals(2).Height(10)).
		WithPanel(rows(words{"Namespaces", "Energy, its idle part, GPU hours and cost of each namespace in the full hours of the month.", noRules}, full, billed([]column{
			{field: "cluster", title: "Cluster"},
			{field: "namespace", title: "Namespace", link: toEnergy},
		}), amounts(ofNamespace)...).SortBy(descending("Energy")).Decimals(2).Height(12)).
		WithPanel(rows(words{"Users of units", "Energy, its idle part, GPU hours and cost of the users and accounts of jobs, containers and services outside pods, in the full hours of the month.", noRules}, full, billed([]column{
			{field: "cluster", title: "Cluster"},
			{field: "manager", title: "Manager"},
			{field: "account", title: "Account"},
			{field: "user", title: "User"},
		}), amounts(ofUser)...).SortBy(descending("Energy")).Decimals(2))
}

// billed appends the columns for the queries of [amounts].
func billed(owners []column) []column {
	return append(owners,
		column{field: "Value #A", title: "Energy", unit: "kwatth"},
		column{field: "Value #B", title: "Idle", unit: "kwatth"},
		column{field: "Value #C", title: "GPU hours"},
		column{field: "Value #D", title: "Active GPU hours"},
		column{field: "Value #E", title: "Cost"},
	)
}
