package collector

import (
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// node renders the machine and the driver. If no attribute of the machine is known, node
// writes no series for the machine.
func (p *page) node(s *gpu.Snapshot) {
	if s.Node != (gpu.Node{}) {
		p.machine(s.Node)
	}
	for i := range s.Drivers {
		d := &s.Drivers[i]
		p.info(driverInfo, p.labels(
			"source", d.Name,
			"driver_version", d.Version,
			"nvml_version", d.Details["nvml_version"],
			"dcgm_version", d.Details["dcgm_version"],
			"dcgm_library_version", d.Details["dcgm_library_version"],
		))
	}
	optional(p, pciGPUs, s.PCIGPUs, nil)
	optional(p, driverGPUs, s.DriverGPUs, nil)
	for _, e := range s.NVSwitches {
		p.counter(switchErrors, float64(e.Count), e.Since, p.labels(
			"pci_bus_id", e.PCIBusID,
			"sxid", strconv.FormatUint(e.Code, 10),
			"severity", string(e.Severity),
		))
	}
}

func (p *page) machine(n gpu.Node) {
	p.info(nodeInfo, p.labels(
		"node", n.Name,
		"sys_vendor", gpu.Identity(n.SysVendor),
		"product_name", gpu.Identity(n.ProductName),
		"product_serial", gpu.Identity(n.ProductSerial),
		"board_serial", gpu.Identity(n.BoardSerial),
		"board_asset_tag", gpu.Identity(n.BoardAssetTag),
		"chassis_serial", gpu.Identity(n.ChassisSerial),
		"chassis_asset_tag", gpu.Identity(n.ChassisAssetTag),
		"system_uuid", gpu.Identity(n.SystemUUID),
	))
}
