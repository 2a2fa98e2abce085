package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const (
	noReconciler = "no reconciler"
	noArchive    = "no archive is scraped"
)

func health() *dashboard.DashboardBuilder {
	b := board(uidHealth, "gpuledger / Exporter health", "Shows whether the data is complete: whether every node is scraped, every stage works and the books balance.", "now-6h").
		WithVariable(variable("node", "Node", `label_values(up{cluster=~"$cluster", job="gpuledger"}, node)`)).
		WithPanel(number(words{"Exporters down", "Targets of the job gpuledger that cannot be scraped.", "no exporter is scraped as job gpuledger"}, sixth, "short",
			`count(up{cluster=~"$cluster", node=~"$node", job="gpuledger"} == 0) or 0 * count(up{cluster=~"$cluster", node=~"$node", job="gpuledger"})`).
			Thresholds(from("green", step(1, "red"))).ColorMode(common.BigValueColorModeBackground)).
		WithPanel(number(words{"Exporters", "Exporters that are scraped.", "none"}, sixth, "short",
			`sum(up{cluster=~"$cluster", node=~"$node", job="gpuledger"})`).Thresholds(from("text"))).
		WithPanel(number(words{"Nodes without exporter", "Nodes that should have an exporter according to the reconciler, but have no scraped exporter.", noReconciler}, sixth, "short",
			`count(group by (cluster, node) (gpuledger_node_expected{cluster=~"$cluster", node=~"$node"}) unless on (cluster, node) (up{job="gpuledger"} == 1)) or 0 * count(gpuledger_node_expected{cluster=~"$cluster", node=~"$node"})`).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(number(words{"Books balance", "Share of a GPU's energy that is in accounts, for the GPU with the lowest share. It must be 100 %.", "the rules are not loaded"}, sixth, "percentunit",
			`min(gpuledger:books_coverage:ratio{cluster=~"$cluster", node=~"$node"})`).
			Thresholds(from("red", step(0.9999, "green"))).Decimals(2)).
		WithPanel(number(words{"Unmapped processes", "Processes on GPUs with an unknown owner. Their energy is unattributed.", "not exported"}, sixth, "short",
			`sum(gpuledger_processes{cluster=~"$cluster", node=~"$node", mapped="false"})`).
			Thresholds(from("green", step(1, "orange")))).
		WithPanel(number(words{"Oldest reading", "Longest time since the last reading of a present GPU.", "no GPU is present"}, sixth, "s",
			`ceil(max(time() - gpuledger_gpu_last_reading_timestamp_seconds{cluster=~"$cluster", node=~"$node"} and on (cluster, node, UUID) gpuledger_gpu_present == 1))`).
			Thresholds(from("green", step(60, "orange"), step(300, "red"))).Decimals(0))
	return healthParts(b)
}

func healthParts(b *dashboard.DashboardBuilder) *dashboard.DashboardBuilder {
	return b.
		WithPanel(rows(words{"Failed stages", "Stages of exporters whose last attempt failed, with the time of their last success (docs/metrics.md).", "every stage works"}, half, []column{
			{field: "node", title: "Node", link: toNode},
			{field: "stage", title: "Stage"},
			{field: "Value", title: "Last success", unit: "dateTimeFromNow", states: []dashboard.ValueMapping{state("0", "never", "red")}},
		}, `1000 * (gpuledger_stage_last_success_timestamp_seconds{cluster=~"$cluster", node=~"$node"} and on (cluster, node, stage) gpuledger_stage_up == 0
  or on (cluster, node, stage) 0 * (gpuledger_stage_up{cluster=~"$cluster", node=~"$node"} == 0))`).
			Height(6)).
		WithPanel(rows(words{"Nodes that should have an exporter", "Nodes without a scraped exporter, with the reason in gpuledger_node_expected (docs/metrics.md).", "no exporter is missing, or there is no reconciler"}, half, []column{
			{field: "node", title: "Node"},
			{field: "reason", title: "Why"},
		}, `gpuledger_node_expected{cluster=~"$cluster", node=~"$node"} unless on (cluster, node) (up{job="gpuledger"} == 1)`).
			Height(6)).
		WithPanel(lines(words{"Energy with unknown owner", "Share of the GPUs' energy. gap: the counter was not read; unmapped: a process with an unknown container; unknown: a doubtful allocation.", "no energy readings"}, half, "percentunit",
			`sum by (reason) (rate(gpuledger_unattributed_energy_joules_total{cluster=~"$cluster", node=~"$node", reason=~"gap|unmapped|unknown"}[$__rate_interval]))
  / ignoring (reason) group_left () sum(rate(gpuledger_gpu_energy_joules_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))`, "{{reason}}").AxisSoftMax(0.05)).
		WithPanel(lines(words{"Failures per hour", "Rate of failed attempts of stages and of rejected energy readings.", "no exporter is scraped"}, half, "short",
			`3600 * sum(rate(gpuledger_gpu_readings_rejected_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))`, "readings rejected").
			WithTarget(over("B", `3600 * sum by (stage) (rate(gpuledger_stage_failures_total{cluster=~"$cluster", node=~"$node"}[$__rate_interval]))
  and on (stage) sum by (stage) (increase(gpuledger_stage_failures_total{cluster=~"$cluster", node=~"$node"}[$__range] @ end())) > 0`, "{{stage}} failed")).AxisSoftMax(10)).
		WithPanel(lines(words{"Series of the largest page", "Number of series in a scrape, for the node with the most series. Pages with more than 20,000 series, the shipped limit, are rejected.", "no exporter is scraped"}, third, "short",
			`max by (job) (scrape_samples_scraped{cluster=~"$cluster", node=~"$node", job=~"gpuledger.*"})`, "{{job}}")).
		WithPanel(lines(words{"Longest scrape", "Duration of a scrape, for the slowest node.", "no exporter is scraped"}, third, "s",
			`max by (job) (scrape_duration_seconds{cluster=~"$cluster", node=~"$node", job=~"gpuledger.*"})`, "{{job}}")).
		WithPanel(rows(words{"Versions", "Versions of exporters and drivers, with the number of nodes.", "no exporter is scraped"}, third, []column{
			{field: "version", title: "gpuledger"},
			{field: "driver_version", title: "Driver"},
			{field: "source", title: "Read by", width: 90},
			{field: "Value", title: "Nodes", width: 80},
		}, `count by (version, driver_version, source) (gpuledger_driver_info{cluster=~"$cluster", node=~"$node"} * on (cluster, node, instance) group_left (version) gpuledger_build_info)`)).
		WithPanel(rows(words{"States of the inventories", "Nodes by the state of their exporter's inventory (docs/metrics.md). Labels are written only in the state settled.", noReconciler}, half, []column{
			{field: "state", title: "State"},
			{field: "Value", title: "Nodes"},
		}, `sum by (state) (gpuledger_reconciler_nodes{cluster=~"$cluster"}) > 0`).
			Height(6)).
		WithPanel(lines(words{"Writes of node labels per hour", "Rate of Node writes and of failed writes. Without changes there are no writes.", noReconciler}, half, "short",
			`3600 * sum by (kind) (rate(gpuledger_reconciler_node_writes_total{cluster=~"$cluster"}[$__rate_interval]))`, "{{kind}}").
			WithTarget(over("B", `3600 * sum by (failure) (rate(gpuledger_reconciler_node_write_failures_total{cluster=~"$cluster"}[$__rate_interval]))`, "failed: {{failure}}")).
			Height(6)).
		WithPanel(lines(words{"Hours behind in the archive", "Hours that have ended but are not filed yet, by sink, for the replica with the fewest such hours. At the start of a back-fill, there are many such hours.", noArchive}, half, "short",
			`min by (sink) (gpuledger_archive_hours_behind{cluster=~"$cluster"})`, "{{sink}}").AxisSoftMax(10).
			Height(6)).
		WithPanel(rows(words{"Hours refused by the archive", "Hours that are not filed because their samples may be incomplete, by cluster and reason (docs/archive.md).", "none, or no archive is scraped"}, half, []column{
			{field: "cluster", title: "Cluster"},
			{field: "reason", title: "Reason"},
			{field: "Value", title: "Hours"},
		}, `max by (cluster, reason) (gpuledger_archive_hours_refused{cluster=~"$cluster"}) > 0`).
			Height(6))
}
