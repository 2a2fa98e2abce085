package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const noReconciler = "no reconciler"

func health() *dashboard.DashboardBuilder {
	b := board(uidHealth, "gpuledger / Exporter health", "Can the other dashboards be believed: is every node looked at, does every part work, do the books balance?", "now-6h").
		WithVariable(variable("node", "Node", `label_values(up{cluster=~"$cluster", job="gpuledger"}, node)`)).
		WithPanel(number(words{"Exporters down", "Exporters that Prometheus knows and that do not answer.", "no exporter is scraped as job gpuledger"}, sixth, "short",
			`count(up{cluster=~"$cluster", node=~"$node", job="gpuledger"} == 0) or 0 * count(up{cluster=~"$cluster", node=~"$node", job="gpuledger"})`).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{"Exporters", "Exporters that answer.", "none"}, sixth, "short",
			`sum(up{cluster=~"$cluster", node=~"$node", job="gpuledger"})`).Thresholds(from("text"))).
		WithPanel(number(words{"Nodes without exporter", "Nodes that should have an exporter, as the reconciler says, and have none that answers.", noReconciler}, sixth, "short",
			`count(group by (cluster, node) (gpuledger_node_expected{cluster=~"$cluster", node=~"$node"}) unless on (cluster, node) (up{job="gpuledger"} == 1)) or 0 * count(gpuledger_node_expected{cluster=~"$cluster", node=~"$node"})`).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(number(words{"Books balance", "Part of the GPUs' energy that stands in their accounts, of the GPU where it is least. It is 100 %, always.", "the rules are not loaded"}, sixth, "percentunit",
			`min(gpuledger:books_coverage:ratio{cluster=~"$cluster", node=~"$node"})`).
			Thresholds(from("red", step(0.9999, "green"))).Decimals(2)).
		WithPanel(number(words{"Processes of nobody", "Processes on GPUs of which it is not known whose they are. Their energy is charged to nobody.", "no exporter says"}, sixth, "short",
			`sum(gpuledger_processes{cluster=~"$cluster", node=~"$node", mapped="false"})`).
			Thresholds(from("green", step(1, "orange")))).
		WithPanel(number(words{"Oldest reading", "Time since the present GPU answered that has been silent for longest.", "no GPU is present"}, sixth, "s",
			`ceil(max(time() - gpuledger_gpu_last_reading_timestamp_seconds{cluster=~"$cluster", node=~"$node"} and on (cluster, node, UUID) gpuledger_gpu_present == 1))`).
			Thresholds(from("green", step(60, "orange"), step(300, "red"))).Decimals(0))
	return healthParts(b)
}

// healthParts adds what does not work, and the programs.
func healthParts(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(rows(words{"Stages that do not work", "Parts of exporters whose last attempt failed, and since when. docs/metrics.md lists the stages.", "every stage works"}, half, []column{
			{field: "node", title: "Node", link: toNode},
			{field: "stage", title: "Stage"},
			{field: "Value", title: "Last success", unit: "dateTimeFromNow", states: []dashboard.ValueMapping{state("0", "never", "red")}},
		}, `1000 * (gpuledger_stage_last_success_timestamp_seconds{cluster=~"$cluster", node=~"$node"} and on (cluster, node, stage) gpuledger_stage_up == 0
  or on (cluster, node, stage) 0 * (gpuledger_stage_up{cluster=~"$cluster", node=~"$node"} == 0))`).
			Height(6)).
		WithPanel(rows(words{"Nodes that should have an exporter", "Nodes that have none that answers, and why they should: see the reasons of gpuledger_node_expected in docs/metrics.md.", "none is missing, or no reconciler"}, half, []column{
			{field: "node", title: "Node"},
			{field: "reason", title: "Why"},
		}, `gpuledger_node_expected{cluster=~"$cluster", node=~"$node"} unless on (cluster, node) (up{job="gpuledger"} == 1)`).
			Height(6)).
		WithPanel(lines(words{"Energy that could not be charged", "Part of the GPUs' energy of which it is not known whose it is. gap: nobody was looking; unmapped: a process without a known container; unknown: an allocation that is in doubt.", "no energy was read"}, half, "percentunit",
			`sum by (reason) (rate(gpuledger_unattributed_energy_joules_total{cluster=~"$cluster", node=~"$node", reason=~"gap|unmapped|unknown"}[$__rate_interval]))
  / ignoring (reason) group_left () sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))`, "{{reason}}").AxisSoftMax(0.05)).
		WithPanel(lines(words{"Failures per hour", "Attempts of stages that failed, and readings of energy that were not plausible and not used, at the rate of the moment.", "no exporter is scraped"}, half, "short",
			`3600 * sum(rate(gpuledger_gpu_readings_rejected_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))`, "readings rejected").
			WithTarget(over("B", `3600 * sum by (stage) (rate(gpuledger_stage_failures_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))
  and on (stage) sum by (stage) (increase(gpuledger_stage_failures_total{cluster=~"$cluster", node=~"$node"}[$__range] @ end())) > 0`, "{{stage}} failed")).AxisSoftMax(10)).
		WithPanel(lines(words{"Series on the largest page", "Series that a scrape gave, of the node with most. The shipped limit is 20,000: a page beyond it is not taken at all.", "no exporter is scraped"}, third, "short",
			`max by (job) (scrape_samples_scraped{cluster=~"$cluster", node=~"$node", job=~"gpuledger.*"})`, "{{job}}")).
		WithPanel(lines(words{"Longest scrape", "Time that a scrape took, of the node where it takes longest.", "no exporter is scraped"}, third, "s",
			`max by (job) (scrape_duration_seconds{cluster=~"$cluster", node=~"$node", job=~"gpuledger.*"})`, "{{job}}")).
		WithPanel(rows(words{"Versions", "Versions of exporters and drivers, and how many nodes have them.", "no exporter is scraped"}, third, []column{
			{field: "version", title: "gpuledger"},
			{field: "driver_version", title: "Driver"},
			{field: "source", title: "Read by", width: 90},
			{field: "Value", title: "Nodes", width: 80},
		}, `count by (version, driver_version, source) (gpuledger_driver_info{cluster=~"$cluster", node=~"$node"} * on (cluster, node, instance) group_left (version) gpuledger_build_info)`)).
		WithPanel(rows(words{"What the reconciler thinks of the exporters", "Nodes by what is thought of what their exporter says; nothing is written for those that are not settled. docs/metrics.md lists the states.", noReconciler}, half, []column{
			{field: "state", title: "State"},
			{field: "Value", title: "Nodes"},
		}, `sum by (state) (gpuledger_reconciler_nodes{cluster=~"$cluster"}) > 0`).
			Height(6)).
		WithPanel(lines(words{"Writes of node labels per hour", "Writes of Nodes at the rate of the moment, and those that failed. A cluster in which nothing changes sees none.", noReconciler}, half, "short",
			`3600 * sum by (kind) (rate(gpuledger_reconciler_node_writes_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{kind}}").
			WithTarget(over("B", `3600 * sum by (failure) (rate(gpuledger_reconciler_node_write_failures_total{cluster=~"$cluster"}[$__rate_interval]))`, "failed: {{failure}}")).
			Height(6))
}
