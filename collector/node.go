package collector

import "github.com/gpuledger/gpuledger/internal/gpu"

// node renders the machine and the driver.
func (p *page) node(s *gpu.Snapshot) {
	p.info(nodeInfo, values(
		s.Node.Name,
		gpu.Identity(s.Node.SysVendor),
		gpu.Identity(s.Node.ProductName),
		gpu.Identity(s.Node.ProductSerial),
		gpu.Identity(s.Node.BoardSerial),
		gpu.Identity(s.Node.BoardAssetTag),
		gpu.Identity(s.Node.ChassisSerial),
		gpu.Identity(s.Node.ChassisAssetTag),
		gpu.Identity(s.Node.SystemUUID),
	))
	if d := s.Driver; d != nil {
		p.info(driverInfo, values(d.Source, d.DriverVersion, d.NVMLVersion, d.DCGMVersion))
	}
	optional(p, pciGPUs, s.PCIGPUs, nil)
	optional(p, driverGPUs, s.DriverGPUs, nil)
}
