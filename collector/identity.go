package collector

import (
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// identity renders what a GPU is. A lost GPU keeps all of it: its serial number
// is what the operator needs then.
func (p *page) identity(g *gpu.GPU, uuid *labelSet) {
	p.info(gpuInfo, p.and(uuid,
		strconv.Itoa(g.Index),
		g.PCIBusID,
		g.DeviceNode,
		gpu.Identity(g.Model),
		gpu.Identity(g.Vendor),
		gpu.Identity(g.Serial),
		gpu.Identity(g.BoardPartNumber),
		gpu.Identity(g.VBIOSVersion),
		gpu.Identity(g.Platform.ChassisSerial),
		decimal(g.Platform.Slot),
		decimal(g.Platform.Tray),
		decimal(g.Platform.HostID),
		decimal(g.Platform.ModuleID),
	))
	p.flag(gpuPresent, g.Present, uuid)
	if f := g.Fabric; f != nil {
		p.info(gpuFabric, p.and(uuid, gpu.Identity(f.ClusterUUID), strconv.FormatUint(uint64(f.CliqueID), 10), f.State))
	}
	p.mig(g.MIG, uuid)
}

// mig renders the MIG devices of a GPU.
func (p *page) mig(m *gpu.MIG, uuid *labelSet) {
	if m == nil {
		return
	}
	for _, i := range m.Instances {
		for _, device := range i.Devices {
			if l := p.and(uuid, device.UUID, i.ID, i.Profile, strconv.Itoa(i.Slices)); p.first(migInfo, l) {
				p.info(migInfo, l)
			}
		}
	}
}
