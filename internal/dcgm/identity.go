package dcgm

import (
	"fmt"
	"slices"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A board is one GPU of the engine.
type board struct {
	device gpu.Device // no UUID while it could not be identified
	// asks is how often each family may still be asked for.
	asks [len(families)]int
}

// maxAsks is how often a family is asked for that cannot be told in full. The engine
// writes a line to its log for every field that a driver does not know.
const maxAsks = 3

func newBoard() *board {
	b := new(board)
	for i := range b.asks {
		b.asks[i] = maxAsks
	}
	return b
}

// Families of fields are asked for apart: where a driver knows nothing of a family, all
// of it fails.
var families = [...][]field{naming: {
	godcgm.DCGM_FI_DEV_GPU_UUID, godcgm.DCGM_FI_DEV_NVML_INDEX, godcgm.DCGM_FI_DEV_GPU_NAME, godcgm.DCGM_FI_DEV_BOARD_SERIAL,
	godcgm.DCGM_FI_DEV_GPU_MINOR_NUMBER, godcgm.DCGM_FI_DEV_PCI_BUS_ID, godcgm.DCGM_FI_DEV_VBIOS_VERSION,
}, limits: {
	godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS,
}, platform: {
	godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER, godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SLOT_NUMBER,
	godcgm.DCGM_FI_DEV_PLATFORM_TRAY_INDEX, godcgm.DCGM_FI_DEV_PLATFORM_HOST_ID,
	godcgm.DCGM_FI_DEV_PLATFORM_PEER_TYPE, godcgm.DCGM_FI_DEV_PLATFORM_MODULE_ID,
}, fabric: {
	godcgm.DCGM_FI_DEV_FABRIC_MANAGER_STATUS, godcgm.DCGM_FI_DEV_FABRIC_CLUSTER_UUID, godcgm.DCGM_FI_DEV_FABRIC_CLIQUE_ID,
}}

const (
	naming = iota
	limits
	platform
	fabric
)

// identify asks live what is not known yet of GPUs.
func (d *session) identify() error {
	for i, family := range families {
		var asked []entity
		for _, g := range d.gpus {
			if d.boards[g].asks[i] > 0 {
				asked = append(asked, g)
			}
		}
		if len(asked) == 0 {
			continue
		}
		vs, err := d.engine.live(asked, family...)
		if err != nil {
			return err
		}
		for _, g := range asked {
			of := func(f field) value { return vs[key{g, f}] }
			d.boards[g].learn(of)
			d.boards[g].settle(i, of)
		}
	}
	return nil
}

// settle notes whether a family is to be asked for again: if something failed, as long as
// the GPU has no name, and while it registers with its fabric. A blank is an answer.
func (b *board) settle(i int, of func(field) value) {
	b.asks[i]--
	failed := slices.ContainsFunc(families[i], func(f field) bool { return of(f).status != 0 })
	switch {
	case i == naming && b.device.UUID == "", i == fabric && b.device.Fabric != nil && b.device.Fabric.State != "completed":
		b.asks[i] = 1
	case !failed:
		b.asks[i] = 0
	}
}

// learn takes over what there is of an identity.
func (b *board) learn(of func(field) value) {
	d := &b.device
	d.Vendor = "NVIDIA"
	of(godcgm.DCGM_FI_DEV_GPU_UUID).setWord(&d.UUID)
	of(godcgm.DCGM_FI_DEV_GPU_NAME).setWord(&d.Model)
	of(godcgm.DCGM_FI_DEV_BOARD_SERIAL).setWord(&d.Serial)
	of(godcgm.DCGM_FI_DEV_PCI_BUS_ID).setWord(&d.PCIBusID)
	of(godcgm.DCGM_FI_DEV_VBIOS_VERSION).setWord(&d.VBIOSVersion)
	of(godcgm.DCGM_FI_DEV_PLATFORM_CHASSIS_SERIAL_NUMBER).setWord(&d.Platform.ChassisSerial)
	index, ok := of(godcgm.DCGM_FI_DEV_NVML_INDEX).count()
	assign(&d.Index, func(n int64) int { return int(n) }, index, ok)
	minor, ok := of(godcgm.DCGM_FI_DEV_GPU_MINOR_NUMBER).count()
	assign(&d.DeviceNode, func(n int64) string { return fmt.Sprintf("nvidia%d", n) }, minor, ok)
	for _, f := range []field{godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_MAX_WATTS} {
		watts, ok := of(f).number()
		assign(&d.MaxPower, func(w float64) gpu.Watts { return gpu.Watts(w) }, watts, ok && watts > 0)
	}
	place := func(to **int, f field) {
		n, ok := of(f).count()
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
	of(godcgm.DCGM_FI_DEV_FABRIC_CLUSTER_UUID).setWord(&f.ClusterUUID)
	clique, ok := of(godcgm.DCGM_FI_DEV_FABRIC_CLIQUE_ID).integer()
	assign(&f.CliqueID, func(n int64) uint32 { return uint32(n) }, clique, ok)
	b.device.Fabric = f
}
