package gpu

import "slices"

// Device describes the identity and the place of one physical GPU. A source reads it when the driver is opened or the
// set of GPUs changes. All strings are exactly the strings that the driver returned.
type Device struct {
	// UUID identifies the GPU everywhere (NVML nvmlDeviceGetUUID, DCGM field 54).
	UUID string `json:"uuid"`
	// Index is the position in the driver's enumeration order. It changes when a GPU is lost, so it is never
	// used as a key.
	Index int `json:"index"`
	// Position is the index of the GPU in a list of all GPUs and partitions of the driver, sorted by device node. A
	// partitioned GPU has the position of its first partition. The partitions of a GPU have consecutive positions.
	// Position is nil for NVIDIA GPUs. Like Index, it changes when a GPU is lost. It is not saved. If a GPU was lost
	// before a restart of the exporter, its position is unknown after the restart.
	Position *int `json:"-"`
	// DeviceNode is the path of the device node below /dev, such as nvidia0, where 0 is the minor number. It is empty
	// if unknown. Like Index, the path may change when a GPU is lost.
	DeviceNode string `json:"device"`
	// PCIBusID is the address in NVML's format: 00000000:1B:00.0.
	PCIBusID string `json:"pci_bus_id"`
	Vendor   string `json:"vendor"`
	Model    string `json:"model"`
	// Serial is the serial number of the board (DCGM field 53). All GPUs of a board have the same
	// serial number. Boards without an inforom have no serial number.
	Serial          string `json:"serial"`
	BoardPartNumber string `json:"board_part_number"`
	VBIOSVersion    string `json:"vbios_version"`

	Platform Platform `json:"platform"`
	// Fabric is nil if the GPU is not part of an NVLink fabric or XGMI hive.
	Fabric *Fabric `json:"fabric,omitempty"`

	// Partitions is nil while the GPU is not in MIG mode.
	Partitions *Partitioning `json:"mig,omitempty"`

	EnergySource EnergySource `json:"energy_source"`
	EnergyScope  EnergyScope  `json:"energy_scope"`
	// MaxPower is the highest power limit that can be set on the board, or 0 if it is unknown. The ledger uses it to
	// detect implausible energy readings.
	MaxPower Watts `json:"max_power_watts"`
	// ReportsEvents is set while the driver delivers the GPU's XID errors as events. While it is not
	// set, the absence of errors does not mean that the GPU is healthy.
	ReportsEvents bool `json:"xid_events"`
	// Released is set while the exporter does not open the GPU because an operator released it. It is not saved.
	Released bool `json:"-"`
}

// indexed is the only vendor whose device plugin names GPUs by index. Such a name must not match a GPU of another
// vendor with the same index.
const indexed = "NVIDIA"

// Named reports whether a name refers to the GPU itself, and not to one of its partitions.
func (d Device) Named(name DeviceName) bool {
	switch {
	case name.UUID != "":
		return d.UUID == name.UUID
	case name.Index != nil:
		return d.Index == *name.Index && (d.Vendor == indexed || d.Vendor == "")
	case name.Position != nil:
		return d.Position != nil && d.Partitions == nil && *d.Position == *name.Position
	case name.Node != "":
		return d.DeviceNode == name.Node
	case name.PCIBusID != "":
		return d.PCIBusID == name.PCIBusID
	}
	return false
}

// Platform describes the place of a GPU in its chassis (NVML nvmlDeviceGetPlatformInfo, DCGM fields
// 571-577). Blackwell and newer GPUs report it.
type Platform struct {
	ChassisSerial string `json:"chassis_serial"`
	// Slot is the position among all slots in the chassis, including switch trays.
	Slot *int `json:"chassis_slot,omitempty"`
	// Tray is the position among the compute trays in the chassis.
	Tray     *int `json:"tray_index,omitempty"`
	HostID   *int `json:"host_id,omitempty"`
	PeerType *int `json:"peer_type,omitempty"`
	// ModuleID is the position of the module in its node. The order of the modules may differ from the order of their
	// PCI addresses.
	ModuleID *int `json:"module_id,omitempty"`
}

// Fabric identifies the NVLink domain of a GPU (NVML nvmlDeviceGetGpuFabricInfo, DCGM fields 170-173). For
// an AMD GPU it identifies the XGMI hive, which is a group of GPUs in one machine (amdgpu,
// xgmi_hive_info/xgmi_hive_id).
type Fabric struct {
	ClusterUUID string `json:"cluster_uuid"`
	CliqueID    uint32 `json:"clique_id"`
	// State is "not_started", "in_progress", "completed" or "failed".
	State string `json:"state"`
	// Problems contains the state of each link condition that the driver reports (NVML healthMask).
	Problems []FabricProblem `json:"problems,omitempty"`
}

// FabricProblem describes a possible problem of a GPU's links, such as degraded_bandwidth.
type FabricProblem struct {
	Name    string `json:"name"`
	Present bool   `json:"present"`
	// Cause is the incorrect part of the configuration, such as no_partition.
	Cause string `json:"cause,omitempty"`
}

// Partitioning describes the partitions of a GPU in MIG mode. They may change while the GPU is running.
type Partitioning struct {
	// Slices is the number of slices into which the GPU can be divided.
	Slices    int         `json:"slices"`
	Instances []Partition `json:"instances,omitempty"`
}

// Partition describes one GPU instance (NVML nvmlDeviceGetGpuInstanceId, DCGM FE_GPU_I). After the instance is
// destroyed, a new instance with a different profile may get its id.
type Partition struct {
	// ID is the GPU instance id, in decimal. DCGM's label for this id is GPU_I_ID.
	ID string `json:"id"`
	// Profile is the profile in nvidia-smi's format, such as 3g.40gb.
	Profile string `json:"profile"`
	// ProfileID is the number of the profile, and Start is the first memory slice of the instance. The names of DRA
	// devices contain both numbers. An unknown number is -1.
	ProfileID int `json:"profile_id"`
	Start     int `json:"start"`
	// Slices is the number of GPU slices in the instance.
	Slices int `json:"slices"`
	// Devices contains the MIG devices of the instance, one for each compute instance.
	Devices []PartitionDevice `json:"devices"`
}

// PartitionDevice describes one compute instance of a GPU instance.
type PartitionDevice struct {
	// UUID is the UUID of the MIG device (MIG-…). With amdgpu, UUID is the name of the partition's device in sysfs. The
	// first partition has the address of the PCI device (0000:1b:00.0). The others are named amdgpu_xcp_<n>.
	UUID string `json:"uuid"`
	// Index is the driver's number of the MIG device on its GPU. The numbers may have gaps.
	Index int `json:"index"`
	// Node is the path of the partition's own device node below /dev, such as dri/renderD129. It is
	// empty if the partition has no node.
	Node string `json:"device,omitempty"`
}

// EnergySource is the source of a GPU's energy readings.
type EnergySource string

// The energy sources.
const (
	EnergyNone    EnergySource = ""        // the GPU reports neither energy nor power
	EnergyCounter EnergySource = "counter" // the board's own counter
	EnergyPower   EnergySource = "power"   // power readings, integrated over time
	EnergyDivided EnergySource = "divided" // the GPU's share of the energy that the counter of its module reports
)

// EnergyScope is the hardware that an energy reading covers. The counter of a board with several dies, or
// with a CPU, may include more than the energy of one GPU.
type EnergyScope string

// The energy scopes.
const (
	ScopeGPU     EnergyScope = "gpu"
	ScopeModule  EnergyScope = "module"
	ScopeUnknown EnergyScope = "unknown" // the driver does not report the scope
)

// Driver identifies the software that a source uses to read the GPUs of one vendor.
type Driver struct {
	Vendor  string `json:"vendor"` // the same vendor as in Device.Vendor
	Name    string `json:"name"`   // for example "nvml"
	Version string `json:"version"`
	// Details contains the versions of libraries and engines. The keys are labels of gpuledger_driver_info:
	// nvml_version, dcgm_version and dcgm_library_version. The map must not be changed after it was reported.
	Details map[string]string `json:"details,omitempty"`
}

// Responds reports whether one of the drivers reads the GPUs of a vendor.
func Responds(drivers []Driver, vendor string) bool {
	return slices.ContainsFunc(drivers, func(d Driver) bool { return d.Vendor == vendor })
}

// PCIClass describes the PCI devices that are GPUs of one vendor (/sys/bus/pci/devices/*/{vendor,class}).
type PCIClass struct {
	Vendor string // PCI vendor, such as 0x10de
	Class  string // prefix of the class, such as 0x0302
	// Driver is the kernel driver (/sys/bus/pci/devices/*/driver) of a GPU that processes on this machine can
	// use. The source lists only GPUs with this driver.
	Driver string
	// Attribute is the name of a file in the device's folder, such as unique_id. The file must contain a value
	// other than zeros. If Attribute is empty, no file is required.
	Attribute string
}

// Node describes the machine according to its firmware (/sys/class/dmi/id).
type Node struct {
	Name            string `json:"node"`
	SysVendor       string `json:"sys_vendor"`
	ProductName     string `json:"product_name"`
	ProductSerial   string `json:"product_serial"`
	BoardSerial     string `json:"board_serial"`
	BoardAssetTag   string `json:"board_asset_tag"`
	ChassisSerial   string `json:"chassis_serial"`
	ChassisAssetTag string `json:"chassis_asset_tag"`
	SystemUUID      string `json:"system_uuid"`
}
