package collector

import (
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// identity renders the series that identify a GPU, such as its serial number and PCI address. The series remain after
// the GPU was lost, because the operator needs the serial number to find the GPU.
func (p *page) identity(g *gpu.GPU, uuid *labelSet) {
	p.info(gpuInfo, p.with(uuid,
		"gpu", strconv.Itoa(g.Index),
		"pci_bus_id", g.PCIBusID,
		"device", g.DeviceNode,
		"model", gpu.Identity(g.Model),
		"vendor", gpu.Identity(g.Vendor),
		"serial", gpu.Identity(g.Serial),
		"board_part_number", gpu.Identity(g.BoardPartNumber),
		"vbios_version", gpu.Identity(g.VBIOSVersion),
		"chassis_serial", gpu.Identity(g.Platform.ChassisSerial),
		"chassis_slot", decimal(g.Platform.Slot),
		"tray_index", decimal(g.Platform.Tray),
		"host_id", decimal(g.Platform.HostID),
		"module_id", decimal(g.Platform.ModuleID),
	))
	p.flag(gpuPresent, g.Present, uuid)
	if f := g.Fabric; f != nil {
		p.info(gpuFabric, p.with(uuid, "cluster_uuid", gpu.Identity(f.ClusterUUID), "clique_id", strconv.FormatUint(uint64(f.CliqueID), 10), "state", f.State))
	}
	p.fabricHealth(g, uuid)
	p.mig(g.Partitions, uuid)
}

func (p *page) fabricHealth(g *gpu.GPU, uuid *labelSet) {
	if !g.Present || g.Fabric == nil || len(g.Fabric.Problems) == 0 {
		return
	}
	healthy := true
	for _, problem := range g.Fabric.Problems {
		if problem.Present {
			healthy = false
			p.info(fabricProblem, p.with(uuid, "problem", problem.Name, "cause", problem.Cause))
		}
	}
	p.flag(fabricHealthy, healthy, uuid)
}

func (p *page) mig(m *gpu.Partitioning, uuid *labelSet) {
	if m == nil {
		return
	}
	for _, i := range m.Instances {
		for _, device := range i.Devices {
			if l := p.with(uuid, "mig_uuid", device.UUID, "GPU_I_ID", i.ID, "GPU_I_PROFILE", i.Profile, "slices", strconv.Itoa(i.Slices)); p.first(migInfo, l) {
				p.info(migInfo, l)
			}
		}
	}
}
