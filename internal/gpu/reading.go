package gpu

import (
	"slices"
	"time"
)

// Report is everything that the sources of readings return at one tick.
type Report struct {
	// Drivers has one for each source that answered. Partial is set if another one did
	// not: the report has no device of its vendor then.
	Drivers []Driver
	Partial bool
	// Devices are the GPUs the driver answers for, including those whose call
	// is late. A GPU that fell off the bus is missing.
	Devices []Device
	// Readings has at most one entry per device; a device that did not answer
	// in time has none.
	Readings []Reading
	// Events are the driver's error events since the last report.
	Events []DriverEvent
	// Fields is what the field page shows, nil if there is none.
	Fields *FieldPage
}

// Reading is one look at one GPU. Every value may be missing on its own.
type Reading struct {
	UUID string
	// At is when the energy counter was read. Took is by how much that may have been
	// earlier: the call took that long.
	At   Instant
	Took time.Duration
	// Energy is the board's counter since the driver was loaded (NVML
	// nvmlDeviceGetTotalEnergyConsumption, or field 191 with scope GPU), or the
	// integral of power where there is none.
	Energy *Millijoules
	// ModulePower is set if Energy covers a whole module. Part is then the GPU's part of
	// the module's energy, 0 to 1, computed by the sampler; 0 means undivided.
	ModulePower ModulePower
	Part        float64

	Gauges     Gauges
	PowerLimit *Watts // enforced limit
	// RowRemap is nil where the GPU cannot remap rows of its memory, and in MIG mode.
	RowRemap *RowRemap

	// Contexts are the processes that hold a context on the GPU, one entry per
	// process. It is meaningful only if ContextsKnown.
	Contexts      []Context
	ContextsKnown bool
	// Samples say how busy processes were since the last reading, oldest first.
	// Together they cover Sampled. They are meaningful only if SamplesKnown; with
	// none nothing ran.
	Samples      []Sample
	Sampled      Span
	SamplesKnown bool
	// Instances say how busy MIG instances were. They are meaningful only if
	// InstancesKnown, when every instance has one.
	Instances      []InstanceSample
	InstancesKnown bool
}

// ModulePower is the power of a GPU and of its module, averaged over one second
// (NVML_FI_DEV_POWER_AVERAGE, field 185, by scope); 0 if the driver does not report it.
type ModulePower struct{ GPU, Module Watts }

// RowRemap is how a GPU fares with the replacement of faulty rows of its memory by
// spare ones (NVML nvmlDeviceGetRemappedRows, DCGM fields 395 and 396; Ampere and newer).
type RowRemap struct {
	// Pending is set while a row waits for the next reset of the GPU.
	Pending bool
	// Failed is set for good once there was no spare row for a faulty one.
	Failed bool
	// Correctable and Uncorrectable count the rows that were remapped over the life of the
	// board, by the kind of the memory error.
	Correctable, Uncorrectable int
}

// Span is a time, on the boot clock.
type Span struct{ From, To time.Duration }

// Len returns how long a span is.
func (s Span) Len() time.Duration { return s.To - s.From }

// Overlap returns how much of two spans is common to them.
func (s Span) Overlap(t Span) time.Duration {
	return max(0, min(s.To, t.To)-max(s.From, t.From))
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

// Sample is how busy a GPU was with one process, averaged over a time: sampled
// ownership by the driver's ring (NVML nvmlDeviceGetProcessUtilization), six or
// seven samples a second, or the driver's accounting (nvmlDeviceGetAccountingStats_v2).
type Sample struct {
	PID uint32
	Span
	SM     float64 // 0 to 1
	Memory float64 // 0 to 1
}

// InstanceSample is how busy a MIG instance was, averaged over a time: the part of
// its own multiprocessors' time with a warp on them (NVML nvmlGpmMetricsGet,
// NVML_GPM_METRIC_SM_UTIL).
type InstanceSample struct {
	Instance string // its GPU instance id
	Span
	SM float64 // 0 to 1
}

// DriverEvent is one error event of the driver (NVML nvmlEventTypeXidCriticalError).
type DriverEvent struct {
	UUID string
	Code uint64
	At   time.Time
	// Earlier counts errors of that code before it whose times are not known any more.
	Earlier uint64
}

// maxWaiting is how many errors wait for a report with a time of their own.
const maxWaiting = 1024

// Queue adds an error to those that wait for a report, which may be days away. Of too many
// the oldest of its kind is counted with it: none is lost, but for its time.
func (x DriverEvent) Queue(waiting []DriverEvent) []DriverEvent {
	if len(waiting) >= maxWaiting {
		same := func(o DriverEvent) bool { return o.UUID == x.UUID && o.Code == x.Code }
		if i := slices.IndexFunc(waiting, same); i >= 0 {
			x.Earlier += waiting[i].Earlier + 1
			waiting = slices.Delete(waiting, i, i+1)
		}
	}
	return append(waiting, x)
}
