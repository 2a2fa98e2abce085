package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// node renders the machine and the driver. A machine of which nothing is known has
// no series.
func (p *page) node(s *gpu.Snapshot) {
	if s.Node != (gpu.Node{}) {
		p.machine(s.Node)
	}
	for i := range s.Drivers {
		d := &s.Drivers[i]
		p.info(driverInfo, p.labels(d.Name, d.Version, d.Details["nvml_version"], d.Details["dcgm_version"], d.Details["dcgm_library_version"]))
	}
	optional(p, pciGPUs, s.PCIGPUs, nil)
	optional(p, driverGPUs, s.DriverGPUs, nil)
}

// machine renders the machine as its firmware describes it.
func (p *page) machine(n gpu.Node) {
	p.info(nodeInfo, p.labels(
		n.Name,
		gpu.Identity(n.SysVendor),
		gpu.Identity(n.ProductName),
		gpu.Identity(n.ProductSerial),
		gpu.Identity(n.BoardSerial),
		gpu.Identity(n.BoardAssetTag),
		gpu.Identity(n.ChassisSerial),
		gpu.Identity(n.ChassisAssetTag),
		gpu.Identity(n.SystemUUID),
	))
}
