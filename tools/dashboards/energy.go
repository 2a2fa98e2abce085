package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func energy() *dashboard.DashboardBuilder {
	return board(uidEnergy, "gpuledger / Energy and cost", "", "now-6h").WithVariable(one("serial", "Serial number", "label_values(gpuledger_gpu_info{serial!=\"\"}, serial)"))
}
