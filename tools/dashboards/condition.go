package main

import (
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// selector selects the GPUs' series. gpus is an expression with one series for each GPU, with the labels node and
// pci_bus_id.
func conditionPanels(b *dashboard.DashboardBuilder, selector, gpus string) *dashboard.DashboardBuilder {
	const none = "no GPU reports it, or see --collector.health"
	of := func(series, labels string) string {
		return fill(`topk(20, SERIES * on (cluster, node, UUID) group_left (pci_bus_id) topk by (cluster, node, UUID) (1, group by (cluster, node, UUID, pci_bus_id) (GPUS)))`,
			"SERIES", fill(series, "LABELS", "cluster, node, UUID, "+labels, "SELECTOR", selector), "GPUS", gpus)
	}
	return b.
		WithPanel(lines(words{"Memory errors", "Corrected and uncorrected errors of DRAM and SRAM over the life of the board; the 20 highest. A step up of uncorrectable errors means that processes were killed.", none}, third, "short",
			of(`max by (LABELS) (gpuledger_gpu_ecc_lifetime_errors{SELECTOR})`, "memory, error"), "{{node}} {{pci_bus_id}} {{memory}} {{error}}")).
		WithPanel(lines(words{"Link errors", "New errors of NVLink and PCIe per minute; the 20 highest. A few corrected PCIe errors are normal.", none}, third, "short",
			of(`(60 * max by (LABELS) (rate(gpuledger_gpu_nvlink_errors_total{SELECTOR}[$__rate_interval]) or rate(gpuledger_gpu_pcie_errors_total{SELECTOR}[$__rate_interval])))`, "nvlink_error, pcie_error"),
			"{{node}} {{pci_bus_id}} {{nvlink_error}}{{pcie_error}}")).
		WithPanel(lines(words{"Limited clocks", "Fraction of the time in which a reason limited the clocks; the 20 highest. Reasons overlap. A power cap is normal under load.", none}, third, "percentunit",
			of(`max by (LABELS) (rate(gpuledger_gpu_clock_limited_seconds_total{SELECTOR, clock_limit!="low_utilization"}[$__rate_interval]))`, "clock_limit"),
			"{{node}} {{pci_bus_id}} {{clock_limit}}")).
		WithPanel(rows(words{"Spare rows and recovery", "GPUs with memory banks that used spare rows, or with an action that the driver requires.", "none"}, full, []column{
			{field: "node", title: "Node", link: toNode},
			{field: "pci_bus_id", title: "PCI address", width: 160},
			{field: "finding", title: "Finding"},
			{field: "Value", title: "Banks", width: 90},
		}, fill(`LEFT * on (cluster, node, UUID) group_left (pci_bus_id) topk by (cluster, node, UUID) (1, group by (cluster, node, UUID, pci_bus_id) (GPUS))`,
			"LEFT", `(label_replace(gpuledger_gpu_memory_banks{SELECTOR, spare_rows!="max"} > 0, "finding", "banks with spare rows: $1", "spare_rows", "(.+)")
  or label_replace(gpuledger_gpu_recovery_action_info{SELECTOR, action!="none"}, "finding", "required action: $1", "action", "(.+)"))`,
			"SELECTOR", selector, "GPUS", gpus)).
			SortBy(ascending("Node")).Height(6))
}
