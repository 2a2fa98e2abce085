package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func health() *dashboard.DashboardBuilder {
	return board(uidHealth, "gpuledger / Exporter health", "", "now-6h").WithVariable(one("serial", "Serial number", "label_values(gpuledger_gpu_info{serial!=\"\"}, serial)"))
}
