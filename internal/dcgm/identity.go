package dcgm

import (
	"fmt"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A board is one GPU of the engine.
type board struct {
	device gpu.Device // no UUID while it could not be identified
	// lost is set while the engine says that the GPU is.
	lost bool
	// unsure is set if something could not be told that may be another time.
	unsure bool
}

// Families of fields are asked for apart: where a driver knows nothing of a family,
// all of it fails, and the engine writes a line to its log for every field.
var (
	naming = []field{
		godcgm.DCGM_FI_DEV_GPU_UUID, godcgm.DCGM_FI_DEV_NVML_INDEX, godcgm.DCGM_FI_DEV_GPU_NAME, godcgm.DCGM_FI_DEV_BOARD_SERIAL,
		godcgm.DCGM_FI_DEV_GPU_MINOR_NUMBER, godcgm.DCGM_FI_DEV_PCI_BUS_ID, godcgm.DCGM_FI_DEV_VBIOS_VERSION,
	}
	limits   = []field{godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS}
	platform = []field{
		godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER, godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER,
		godcgm.DCGM_FI_DEV_PLATFORM_TRAY_INDEX, godcgm.DCGM_FI_DEV_PLATFORM_HOST_ID,
		godcgm.DCGM_FI_DEV_PLATFORM_PEER_TYPE, godcgm.DCGM_FI_DEV_PLATFORM_MODULE_ID,
	}
	fabric = []field{
		godcgm.DCGM_FI_DEV_FABRIC_MANAGER_STATUS, godcgm.DCGM_FI_DEV_FABRIC_CLUSTER_UUID, godcgm.DCGM_FI_DEV_FABRIC_CLIQUE_ID,
	}
)

// identify asks live what is not known yet of GPUs. It is asked once of those that
// told everything, whatever they do not have.
func (d *session) identify() error {
	var asked []entity
	for _, g := range d.gpus {
		if b := d.boards[g]; b.device.UUID == "" || b.unsure {
			asked = append(asked, g)
			b.unsure = false
		}
	}
	if len(asked) == 0 {
		return nil
	}
	for _, family := range [][]field{naming, limits, platform, fabric} {
		vs, err := d.engine.live(asked, family...)
		if err != nil {
			return err
		}
		for _, g := range asked {
			b := d.boards[g]
			for _, f := range family {
				b.unsure = b.unsure || vs[key{g, f}].status != 0
			}
			b.learn(func(f field) value { return vs[key{g, f}] })
		}
	}
	return nil
}

// learn takes over what there is of an identity.
func (b *board) learn(of func(field) value) {
	d := &b.device
	d.Vendor = "NVIDIA"
	text := func(to *string, f field) {
		v, ok := of(f).word()
		assign(to, same, v, ok)
	}
	text(&d.UUID, godcgm.DCGM_FI_DEV_GPU_UUID)
	text(&d.Model, godcgm.DCGM_FI_DEV_GPU_NAME)
	text(&d.Serial, godcgm.DCGM_FI_DEV_BOARD_SERIAL)
	text(&d.PCIBusID, godcgm.DCGM_FI_DEV_PCI_BUS_ID)
	text(&d.VBIOSVersion, godcgm.DCGM_FI_DEV_VBIOS_VERSION)
	text(&d.Platform.ChassisSerial, godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER)
	index, ok := of(godcgm.DCGM_FI_DEV_NVML_INDEX).integer()
	assign(&d.Index, func(n int64) int { return int(n) }, index, ok)
	minor, ok := of(godcgm.DCGM_FI_DEV_GPU_MINOR_NUMBER).integer()
	assign(&d.DeviceNode, func(n int64) string { return fmt.Sprintf("nvidia%d", n) }, minor, ok)
	for _, f := range []field{godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS} {
		watts, ok := of(f).number()
		assign(&d.MaxPower, func(w float64) gpu.Watts { return gpu.Watts(w) }, watts, ok)
	}
	place := func(to **int, f field) {
		n, ok := of(f).integer()
		assign(to, func(n int64) *int { return new(int(n)) }, n, ok)
	}
	place(&d.Platform.Slot, godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER)
	place(&d.Platform.Tray, godcgm.DCGM_FI_DEV_PLATFORM_TRAY_INDEX)
	place(&d.Platform.HostID, godcgm.DCGM_FI_DEV_PLATFORM_HOST_ID)
	place(&d.Platform.PeerType, godcgm.DCGM_FI_DEV_PLATFORM_PEER_TYPE)
	place(&d.Platform.ModuleID, godcgm.DCGM_FI_DEV_PLATFORM_MODULE_ID)
	b.learnFabric(of)
}

// fabricStates are the values of dcgmFabricManagerStatus_t that are a registration's. A
// registration that failed is complete, and names no cluster.
var fabricStates = map[int64]string{1: "not_started", 2: "in_progress", 3: "completed", 4: "completed"}

func (b *board) learnFabric(of func(field) value) {
	status, ok := of(godcgm.DCGM_FI_DEV_FABRIC_MANAGER_STATUS).integer()
	if !ok || fabricStates[status] == "" {
		return
	}
	f := &gpu.Fabric{State: fabricStates[status]}
	cluster, ok := of(godcgm.DCGM_FI_DEV_FABRIC_CLUSTER_UUID).word()
	assign(&f.ClusterUUID, same, cluster, ok)
	clique, ok := of(godcgm.DCGM_FI_DEV_FABRIC_CLIQUE_ID).integer()
	assign(&f.CliqueID, func(n int64) uint32 { return uint32(n) }, clique, ok)
	b.device.Fabric = f
	b.unsure = b.unsure || f.State != "completed" // it may go on
}
