package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

const kWh = "3.6e6"

// ofBoard selects the record of one board. ofPods and ofUnits select the record of the selected pods or units on this
// board.
const (
	ofBoard = `{cluster=~"$cluster", serial="$serial", UUID=~"$UUID"}`
	ofPods  = `{cluster=~"$cluster", serial="$serial", UUID=~"$UUID", namespace=~"$namespace"}`
	ofUnits = `{cluster=~"$cluster", serial="$serial", UUID=~"$UUID", manager=~"$manager", unit=~"$unit"}`
)

// These metrics of the record are for one board.
const (
	boardPlace  = `gpuledger_placement_info` + ofBoard
	boardEnergy = `gpuledger_board_energy_joules_total` + ofBoard
	podEnergy   = allocationEnergy + ofPods
	unitEnergy  = `gpuledger_unit_allocation_energy_joules_total` + ofUnits

	boardCreated = `gpuledger_board_created_timestamp_seconds` + ofBoard
	podCreated   = `gpuledger_allocation_created_timestamp_seconds` + ofBoard
	unitCreated  = `gpuledger_unit_allocation_created_timestamp_seconds` + ofBoard
)

const noRecord = "never present in the time range, or no record"

func gpuLife() *dashboard.DashboardBuilder {
	b := board(uidLife, "gpuledger / GPU life", "Shows the history of one board: its places, its pods and units, and their energy.", "now-7d").
		Link(commands("Commands", "gpuledger-archive where, history and report print the life of a board. The report can be attached to an RMA")).
		WithVariable(one("serial", "Serial number", `label_values(gpuledger_placement_info{cluster=~"$cluster", serial!=""}, serial)`)).
		WithVariable(variable("UUID", "GPU", `label_values(gpuledger_placement_info{cluster=~"$cluster", serial="$serial"}, UUID)`)).
		WithVariable(variable("namespace", "Namespace", `label_values(gpuledger_allocation_energy_joules_total{cluster=~"$cluster", serial="$serial"}, namespace)`)).
		WithVariable(variable("manager", "Manager of units", `label_values(gpuledger_unit_allocation_energy_joules_total{cluster=~"$cluster", serial="$serial"}, manager)`)).
		WithVariable(variable("unit", "Unit", `label_values(gpuledger_unit_allocation_energy_joules_total{cluster=~"$cluster", serial="$serial", manager=~"$manager"}, unit)`)).
		WithPanel(number(words{"Places", "Slots of the board in the time range. If there is more than one slot, the board was moved.", noRecord}, quarter, "short",
			fill(`count(group by (cluster, node, chassis_serial, chassis_slot) (present_over_time(PLACE[$__range])))`, "PLACE", boardPlace)).
			Thresholds(from("text", step(2, "orange")))).
		WithPanel(number(words{"Energy", "Energy of the board's GPUs in the time range.", noRecord}, quarter, "kwatth",
			fill(`sum by (serial) (JOULES) / `+kWh, "JOULES", counted(boardEnergy, boardCreated))).Thresholds(from("text")).Decimals(2)).
		WithPanel(number(words{"Pods", "Pods that held or used a GPU of the board in the time range.", "no pod"}, quarter, "short",
			fill(`count(group by (pod_uid) (present_over_time(ENERGY[$__range])))`, "ENERGY", podEnergy)).Thresholds(from("text"))).
		WithPanel(number(words{"XIDs in the time range", "Distinct XIDs of the board's GPUs that the driver reported in the time range, at its current place.", "not reported by the driver"}, quarter, "short",
			reported(`gpuledger_gpu_info{cluster=~"$cluster", serial="$serial", UUID=~"$UUID"}`)).
			Thresholds(from("green", step(1, "red")))).
		WithPanel(bands(words{"Places over time", "One band for each place of each GPU of the board. A gap means that the GPU was lost or not scraped.", noRecord}, full,
			fill(`max by (node, pci_bus_id) (present_over_time(PLACE[$__interval]))`, "PLACE", boardPlace),
			"{{node}} {{pci_bus_id}}", state("1", "here", "green")).Interval("1m").Height(5)).
		WithPanel(rows(words{"Stays", "First and last time of each GPU of the board at each place in the time range, newest first.", noRecord}, full, placed,
			seen(boardPlace, "cluster, node, serial, chassis_serial, chassis_slot, tray_index, pci_bus_id, UUID", "")...).
			Interval("1m").SortBy(descending("From")).Height(7)).
		WithPanel(rows(words{
			"Pods and workloads",
			"Pods that held or used a GPU of the board in the time range, latest first. GPU time is weighted by the share of the GPU. Without the reconciler, the workload is the pod itself.",
			"no pod used the board",
		}, full, []column{
			{field: "Value #A", title: "From", unit: "dateTimeAsIso", width: 170},
			{field: "Value #B", title: "Until", unit: "dateTimeAsIso", width: 170},
			{field: "namespace", title: "Namespace", link: toEnergy},
			{field: "workload_kind", title: "Kind", width: 110},
			{field: "workload_name", title: "Workload"},
			{field: "pod", title: "Pod"},
			{field: "node", title: "Node", link: toNode},
			{field: "Value #C", title: "GPU time", unit: "s"},
			{field: "Value #D", title: "Energy", unit: "kwatth"},
		}, append(seen(podEnergy, podLabels, ""),
			fill(`sum by (LABELS) (SECONDS)`, "LABELS", podLabels, "SECONDS", counted(allocationGPU+ofPods, podCreated)),
			workloads(fill(`(sum by (LABELS) (JOULES) / `+kWh+`)`, "LABELS", podLabels, "JOULES", counted(podEnergy, podCreated))))...).
			Interval("1m").SortBy(descending("Until")).Height(9)).
		WithPanel(rows(words{"Units", "Jobs, containers, services and users outside pods that held or used a GPU of the board in the time range, latest first.", "no unit used the board"}, full, []column{
			{field: "Value #A", title: "From", unit: "dateTimeAsIso", width: 170},
			{field: "Value #B", title: "Until", unit: "dateTimeAsIso", width: 170},
			{field: "manager", title: "Manager", width: 110},
			{field: "unit", title: "Unit"},
			{field: "account", title: "Account"},
			{field: "user", title: "User"},
			{field: "node", title: "Node", link: toNode},
			{field: "Value #C", title: "GPU time", unit: "s"},
			{field: "Value #D", title: "Energy", unit: "kwatth"},
		}, append(seen(unitEnergy, unitLabels, ""),
			fill(`sum by (LABELS) (SECONDS)`, "LABELS", unitLabels, "SECONDS", counted(`gpuledger_unit_allocation_gpu_seconds_total`+ofUnits, unitCreated)),
			describedOver(fill(`(sum by (LABELS) (JOULES) / `+kWh+`)`, "LABELS", unitLabels, "JOULES", counted(unitEnergy, unitCreated))))...).
			Interval("1m").SortBy(descending("Until")).Height(8)).
		WithPanel(stacked(words{"Power by pod and unit", "Power of the board by pod and unit. The unattributed power was idle, or was used by other processes.", noRecord}, full, "watt",
			fill(`sum by (namespace, pod) (rate(ENERGY[$__rate_interval]))`, "ENERGY", podEnergy), "{{namespace}}/{{pod}}").
			WithTarget(over("B", fill(`clamp_min(sum(rate(BOARD[$__rate_interval])) - (sum(rate(ENERGY[$__rate_interval])) or vector(0)) - (sum(rate(UNITS[$__rate_interval])) or vector(0)), 0)`,
				"BOARD", boardEnergy, "ENERGY", allocationEnergy+ofBoard, "UNITS", `gpuledger_unit_allocation_energy_joules_total`+ofBoard), "unattributed")).
			WithTarget(over("C", fill(`sum by (manager, unit) (rate(ENERGY[$__rate_interval]))`, "ENERGY", unitEnergy), "{{manager}}/{{unit}}")))
	return conditionPanels(b, inCluster, `gpuledger_gpu_info{cluster=~"$cluster", serial="$serial", UUID=~"$UUID"}`)
}

const unitLabels = "cluster, node, manager, unit"

const podLabels = "cluster, node, namespace, pod, pod_uid"
