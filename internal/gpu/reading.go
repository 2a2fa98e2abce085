package gpu

import "time"

// Report is everything a source of readings knows at one tick.
type Report struct {
	Driver Driver
	// Devices are the GPUs the driver answers for, including those whose call
	// is late. A GPU that fell off the bus is missing.
	Devices []Device
	// Readings has at most one entry per device; a device that did not answer
	// in time has none.
	Readings []Reading
	// XIDs are the driver's error events since the last report.
	XIDs []XID
}

// Reading is one look at one GPU. Every value may be missing on its own.
type Reading struct {
	UUID string
	// At is when the energy counter was read.
	At Instant
	// Energy is the board's counter since the driver was loaded (NVML
	// nvmlDeviceGetTotalEnergyConsumption, or field 191 with scope GPU), or the
	// integral of power where there is none.
	Energy *Millijoules

	Power       *Watts
	PowerLimit  *Watts   // enforced limit
	Temperature *float64 // degrees Celsius
	Utilization *float64 // 0 to 1: part of the last sample period with a kernel running
	MemoryUsed  *uint64  // bytes
	MemoryTotal *uint64  // bytes
	SMClock     *float64 // hertz
	MemoryClock *float64 // hertz

	// Contexts are the processes that hold a context on the GPU, one entry per
	// process. It is meaningful only if ContextsKnown.
	Contexts      []Context
	ContextsKnown bool
	// Samples are the utilisation samples since the last reading, oldest first.
	// SamplesKnown with no samples means that nothing ran.
	Samples      []Sample
	SamplesKnown bool
}

// Context is a process that holds a compute, graphics or MPS context (NVML
// nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses).
type Context struct {
	PID uint32
	// GPUInstance is the MIG instance it is on, empty on a whole GPU. CUDA lets a
	// process use one.
	GPUInstance string
	// MemoryUsed is in bytes; nil where the driver does not say.
	MemoryUsed *uint64
	// MPS is set for a client of an MPS server.
	MPS bool
}

// Sample is one row of the driver's process-utilisation ring (NVML
// nvmlDeviceGetProcessUtilization): sampled ownership, about 7 times a second.
type Sample struct {
	PID    uint32
	At     time.Time // the driver's own time of the sample
	SM     float64   // 0 to 1
	Memory float64   // 0 to 1
}

// XID is one error event of the driver (NVML nvmlEventTypeXidCriticalError).
type XID struct {
	UUID string
	Code uint64
	At   time.Time
}
