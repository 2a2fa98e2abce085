// Package status summarises a node for people. The summary contains the node's GPUs, their owners, their power, and the
// energy charged to each owner. The exporter serves this summary as the page / and as JSON on /status. The command
// "gpuledger status" prints the summary on a terminal.
package status

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/health"
)

// Version is increased when a field of the page changes its meaning. The version is not increased
// for new fields.
const Version = 1

// Path is the path of the JSON page.
const Path = "/status"

// Page describes the state of a node. Unknown values are absent and never 0.
type Page struct {
	Version int `json:"version"`
	// Time is the time of the reading. AgeSeconds is the age of the reading when the page was served,
	// according to the exporter's clock.
	Time       time.Time `json:"time"`
	AgeSeconds float64   `json:"age_seconds"`
	Node       string    `json:"node"`
	// DriverUp is false while the driver does not respond. In this case GPUs comes from the last
	// reading.
	DriverUp bool         `json:"driver_up"`
	Drivers  []gpu.Driver `json:"drivers,omitempty"`
	// PCIGPUs is the number of GPUs on the PCI bus, and DriverGPUs is the number of GPUs that the
	// driver lists.
	PCIGPUs    *int `json:"pci_gpus,omitempty"`
	DriverGPUs *int `json:"driver_gpus,omitempty"`
	// GPUs contains all GPUs that were found since the node booted, including lost GPUs, sorted by
	// PCI address.
	GPUs []GPU `json:"gpus"`
	// Advice and Evidence describe the health of the node, as on /health.json. They are empty in
	// pages of older exporters.
	Advice   health.Advice     `json:"advice"`
	Evidence []health.Evidence `json:"evidence,omitempty"`
	Stages   []Stage           `json:"stages"`
}

// GPU describes one GPU of the node.
type GPU struct {
	UUID string `json:"uuid"`
	// Index is the driver's index. It is nil for a lost GPU, because another GPU may now have the
	// index of the lost GPU.
	Index           *int   `json:"index,omitempty"`
	PCIBusID        string `json:"pci_bus_id"`
	Model           string `json:"model"`
	Serial          string `json:"serial"`
	BoardPartNumber string `json:"board_part_number"`
	ChassisSerial   string `json:"chassis_serial"`
	ChassisSlot     *int   `json:"chassis_slot,omitempty"`
	TrayIndex       *int   `json:"tray_index,omitempty"`
	ModuleID        *int   `json:"module_id,omitempty"`

	// Advice and Evidence describe the health of the GPU, as on /health.json.
	Advice   health.Advice     `json:"advice"`
	Evidence []health.Evidence `json:"evidence,omitempty"`

	// Present is false after the GPU was lost. Answers is false if there is no recent reading of the
	// GPU. If Answers is false, all measurements are absent.
	Present bool `json:"present"`
	Answers bool `json:"answers"`
	// LastReading is the time of the last reading, or nil if there was no reading.
	LastReading       *time.Time `json:"last_reading,omitempty"`
	ReadingAgeSeconds *float64   `json:"reading_age_seconds,omitempty"`

	PowerWatts         *float64 `json:"power_watts,omitempty"`
	PowerLimitWatts    *float64 `json:"power_limit_watts,omitempty"`
	TemperatureCelsius *float64 `json:"temperature_celsius,omitempty"`
	UtilizationRatio   *float64 `json:"utilization_ratio,omitempty"`
	MemoryUsedBytes    *uint64  `json:"memory_used_bytes,omitempty"`
	MemoryTotalBytes   *uint64  `json:"memory_total_bytes,omitempty"`

	// XIDErrors is the number of XID errors since the boot. It is nil if the driver does not report
	// XID errors.
	XIDErrors *uint64 `json:"xid_errors,omitempty"`
	// LastXID is the code of the last XID error.
	LastXID     *uint64    `json:"last_xid,omitempty"`
	LastXIDTime *time.Time `json:"last_xid_time,omitempty"`

	// RowRemapPending is set while a row remap is pending until the next reset. RowRemapFailed is set
	// if no spare row was left for a remap. Both are nil if the GPU does not report them.
	RowRemapPending *bool `json:"row_remap_pending,omitempty"`
	RowRemapFailed  *bool `json:"row_remap_failed,omitempty"`

	// RASErrors contains the errors that an AMD GPU has counted since its driver was loaded, by block
	// and type.
	RASErrors []RASErrors `json:"ras_errors,omitempty"`

	// MIG lists the MIG instances or partitions. It is nil if the GPU is not divided.
	MIG *[]Instance `json:"mig,omitempty"`

	// HoldersKnown is set while both the allocations and the processes are known. Otherwise
	// Containers may be incomplete.
	HoldersKnown bool `json:"holders_known"`
	// Containers contains the containers that hold or use the GPU, and the ended containers that still
	// have counters.
	Containers []Container `json:"containers"`
	// HostProcesses is the number of processes outside all pods and units. UnmappedProcesses is the
	// number of processes with an unknown container.
	HostProcesses     int `json:"host_processes"`
	UnmappedProcesses int `json:"unmapped_processes"`

	// Energy is nil while no energy is charged, and for a lost GPU whose counters have ended.
	Energy *Energy `json:"energy,omitempty"`
	// Explained is set if the exporter keeps intervals that explain the charges.
	Explained bool `json:"explained,omitempty"`
	// EnergySource is empty if the GPU reports neither energy nor power.
	EnergySource gpu.EnergySource `json:"energy_source"`
	EnergyScope  gpu.EnergyScope  `json:"energy_scope"`
}

// RASErrors contains the number of errors with one type in one block of a GPU.
type RASErrors struct {
	Block string      `json:"block"`
	Type  gpu.RASType `json:"type"`
	Count uint64      `json:"count"`
}

// Instance is a MIG instance or a partition.
type Instance struct {
	ID      string `json:"id"`
	Profile string `json:"profile"`
}

// Container describes a container in a pod, or a unit outside pods, on a GPU or on one of its MIG
// instances.
type Container struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"pod_uid"`
	Container string `json:"container"`
	// Manager and Unit identify a unit. For a unit, the fields that describe a container of a pod are empty.
	Manager string `json:"manager,omitempty"`
	Unit    string `json:"unit,omitempty"`
	// User, UID, Account, JobName and ArrayElement describe a unit. Each of these fields may be empty.
	User         string `json:"user,omitempty"`
	UID          string `json:"uid,omitempty"`
	Account      string `json:"account,omitempty"`
	JobName      string `json:"job_name,omitempty"`
	ArrayElement string `json:"array_element,omitempty"`
	GPUInstance  string `json:"gpu_instance,omitempty"`
	// Holds is set while the container holds or uses the GPU. The four fields after Holds are set only
	// if Holds is set. Sharing is set only if it is known whether the container has an allocation.
	Holds    bool        `json:"holds"`
	Sharing  gpu.Sharing `json:"sharing,omitempty"`
	Resource string      `json:"resource,omitempty"`
	Claim    string      `json:"claim,omitempty"`
	Replicas int         `json:"replicas,omitempty"`
	// Energy is the energy of this GPU that is charged to the container, or nil if the container has no account.
	Energy *Charged `json:"energy,omitempty"`
}

// Charged contains the charged energy by charging method, in joules.
type Charged struct {
	Exclusive float64 `json:"exclusive_joules"`
	Shared    float64 `json:"shared_joules"`
	Allocated float64 `json:"allocated_joules"`
	// Idle is the owner's share of the GPU's idle energy, in joules. The three values above include this share, so it
	// must not be added to them.
	Idle float64 `json:"idle_joules,omitempty"`
}

// Sum returns the energy over all methods, in joules.
func (c Charged) Sum() float64 { return c.Exclusive + c.Shared + c.Allocated }

// Energy describes how a GPU's energy is charged. Total is the sum of the charged energy of all methods, the
// unattributed energy and the retired energy.
type Energy struct {
	// From is the time at which the exporter began to count the energy. To is the time until which the energy has been
	// charged.
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Total float64   `json:"total_joules"`
	Charged
	// Unattributed contains the energy that is charged to no container, by reason, in joules.
	Unattributed map[string]float64 `json:"unattributed_joules"`
	// Retired is the energy charged to containers that are no longer shown.
	Retired float64 `json:"retired_joules"`
}

// Stage describes the health of a stage after at least one attempt.
type Stage struct {
	Name string `json:"name"`
	// Up is set if the last attempt succeeded.
	Up          bool       `json:"up"`
	Failures    uint64     `json:"failures"`
	LastSuccess *time.Time `json:"last_success,omitempty"`
	// SuccessAgeSeconds is the age of the last success.
	SuccessAgeSeconds *float64 `json:"last_success_age_seconds,omitempty"`
	// Error is the reason why the last attempt failed, or empty if it succeeded.
	Error string `json:"error,omitempty"`
}
