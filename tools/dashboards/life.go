package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func gpuLife() *dashboard.DashboardBuilder {
	return board(uidLife, "gpuledger / GPU life", "", "now-6h").WithVariable(one("serial", "Serial number", "label_values(gpuledger_gpu_info{serial!=\"\"}, serial)"))
}
