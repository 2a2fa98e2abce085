package main

import "github.com/grafana/grafana-foundation-sdk/go/dashboard"

func chassis() *dashboard.DashboardBuilder {
	return board(uidChassis, "gpuledger / Chassis", "The GPUs of one chassis, tray by tray: which are there, and who has them.", "now-6h").
		WithVariable(one("chassis", "Chassis", `label_values(gpuledger_gpu_info{cluster=~"$cluster", chassis_serial!=""}, chassis_serial)`))
}
