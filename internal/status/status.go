// Package status is what a person wants to know of a node at a glance: which GPUs it
// has, who holds them, what they draw and who was charged for it. The exporter shows it
// as the page / to people and as /status to programs, and the command "gpuledger status"
// prints it on a terminal.
package status

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Version changes when a field of the page changes its meaning. New fields do not
// change it.
const Version = 1

// Path is where the exporter serves the page as JSON.
const Path = "/status"

// Page is the state of a node. What is not known is missing, never 0.
type Page struct {
	Version int `json:"version"`
	// Time is when the state was read, AgeSeconds how long before the answer that was,
	// on the exporter's clock.
	Time       time.Time `json:"time"`
	AgeSeconds float64   `json:"age_seconds"`
	Node       string    `json:"node"`
	// DriverUp is false while the driver does not answer. What is said of the GPUs is
	// then what was true before.
	DriverUp bool         `json:"driver_up"`
	Drivers  []gpu.Driver `json:"drivers,omitempty"`
	// PCIGPUs counts the GPUs on the PCI bus, DriverGPUs those the driver answers for.
	PCIGPUs    *int `json:"pci_gpus,omitempty"`
	DriverGPUs *int `json:"driver_gpus,omitempty"`
	// GPUs are all GPUs seen since the node booted, present or lost, by PCI address.
	GPUs   []GPU   `json:"gpus"`
	Stages []Stage `json:"stages"`
}

// GPU is one GPU of the node.
type GPU struct {
	UUID string `json:"uuid"`
	// Index is the driver's number of it. A lost GPU has none: its number may be
	// another one's by now.
	Index           *int   `json:"index,omitempty"`
	PCIBusID        string `json:"pci_bus_id"`
	Model           string `json:"model"`
	Serial          string `json:"serial"`
	BoardPartNumber string `json:"board_part_number"`
	ChassisSerial   string `json:"chassis_serial"`
	ChassisSlot     *int   `json:"chassis_slot,omitempty"`
	TrayIndex       *int   `json:"tray_index,omitempty"`
	ModuleID        *int   `json:"module_id,omitempty"`

	// Present is false after the GPU was lost. Answers is false while there is no
	// reading of it, or an old one only; then all measurements are missing.
	Present bool `json:"present"`
	Answers bool `json:"answers"`
	// LastReading is when the GPU last answered, nil if it never did.
	LastReading       *time.Time `json:"last_reading,omitempty"`
	ReadingAgeSeconds *float64   `json:"reading_age_seconds,omitempty"`

	PowerWatts         *float64 `json:"power_watts,omitempty"`
	PowerLimitWatts    *float64 `json:"power_limit_watts,omitempty"`
	TemperatureCelsius *float64 `json:"temperature_celsius,omitempty"`
	UtilizationRatio   *float64 `json:"utilization_ratio,omitempty"`
	MemoryUsedBytes    *uint64  `json:"memory_used_bytes,omitempty"`
	MemoryTotalBytes   *uint64  `json:"memory_total_bytes,omitempty"`

	// XIDErrors counts the driver's error events in this boot; nil where the driver
	// delivers none, and none seen says nothing.
	XIDErrors *uint64 `json:"xid_errors,omitempty"`
	// LastXID is the code of the last one.
	LastXID     *uint64    `json:"last_xid,omitempty"`
	LastXIDTime *time.Time `json:"last_xid_time,omitempty"`

	// RowRemapPending is set while a faulty row of the memory waits for a reset to be
	// replaced, RowRemapFailed if one could not be; nil where the GPU does not say.
	RowRemapPending *bool `json:"row_remap_pending,omitempty"`
	RowRemapFailed  *bool `json:"row_remap_failed,omitempty"`

	// MIG lists the GPU's instances, and is nil while it is not in MIG mode.
	MIG *[]Instance `json:"mig,omitempty"`

	// HoldersKnown is set while it is known both who was given the GPU and whose
	// processes are on it. Without it, somebody may be missing from Containers.
	HoldersKnown bool `json:"holders_known"`
	// Containers are those that hold or use the GPU, and those that did and whose
	// counters are still shown.
	Containers []Container `json:"containers"`
	// HostProcesses counts processes on the GPU outside all pods, UnmappedProcesses
	// those whose container could not be named.
	HostProcesses     int `json:"host_processes"`
	UnmappedProcesses int `json:"unmapped_processes"`

	// Energy is nil while nothing is charged, or after the book of a lost GPU was closed.
	Energy *Energy `json:"energy,omitempty"`
	// EnergySource is empty if the GPU reports neither energy nor power.
	EnergySource gpu.EnergySource `json:"energy_source"`
	EnergyScope  gpu.EnergyScope  `json:"energy_scope"`
}

// Instance is a MIG instance.
type Instance struct {
	ID      string `json:"id"`
	Profile string `json:"profile"`
}

// Container is a container on a GPU or on a MIG instance of it.
type Container struct {
	Namespace   string `json:"namespace"`
	Pod         string `json:"pod"`
	PodUID      string `json:"pod_uid"`
	Container   string `json:"container"`
	GPUInstance string `json:"gpu_instance,omitempty"`
	// Holds is set while the container holds or uses the GPU. The next four are
	// set only then, and Sharing not for a container that uses what it may have been
	// given or not, while that is not known.
	Holds    bool        `json:"holds"`
	Sharing  gpu.Sharing `json:"sharing,omitempty"`
	Resource string      `json:"resource,omitempty"`
	Claim    string      `json:"claim,omitempty"`
	Replicas int         `json:"replicas,omitempty"`
	// Energy is what the container was charged on this GPU, nil if it has no account.
	Energy *Charged `json:"energy,omitempty"`
}

// Charged is energy by the way it was charged, in joules.
type Charged struct {
	Exclusive float64 `json:"exclusive_joules"`
	Shared    float64 `json:"shared_joules"`
	Allocated float64 `json:"allocated_joules"`
}

// Sum is the energy over all methods, in joules.
func (c Charged) Sum() float64 { return c.Exclusive + c.Shared + c.Allocated }

// Energy is the book of a GPU. Its total is the sum of all other amounts.
type Energy struct {
	// From is when counting began, To the moment up to which the book is complete.
	From  time.Time `json:"from"`
	To    time.Time `json:"to"`
	Total float64   `json:"total_joules"`
	Charged
	// Unattributed is what no container is charged for, by reason, in joules.
	Unattributed map[string]float64 `json:"unattributed_joules"`
	// Retired is what was charged to containers that are no longer shown.
	Retired float64 `json:"retired_joules"`
}

// Stage is the health of one thing the exporter depends on, which was tried.
type Stage struct {
	Name string `json:"name"`
	// Up is set if the last attempt succeeded.
	Up          bool       `json:"up"`
	Failures    uint64     `json:"failures"`
	LastSuccess *time.Time `json:"last_success,omitempty"`
	// SuccessAgeSeconds is how long ago that was.
	SuccessAgeSeconds *float64 `json:"last_success_age_seconds,omitempty"`
	// Error says why the last attempt failed; it is empty if it did not.
	Error string `json:"error,omitempty"`
}
