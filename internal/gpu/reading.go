package gpu

import (
	"slices"
	"time"
)

// Report is the result of reading all sources at one tick.
type Report struct {
	// Drivers contains one entry for each source that responded. Partial is set if at least one source did not
	// respond. The report contains no devices from a source that did not respond.
	Drivers []Driver
	Partial bool
	// Devices contains the GPUs that the driver lists, including GPUs that have not answered a call in time. A
	// GPU that was lost from the bus is missing.
	Devices []Device
	// Opening contains the vendor of each GPU that was not identified yet, because the first call for the GPU has not
	// returned. These GPUs are missing from Devices, but they are not lost.
	Opening []string
	// Lost contains the UUIDs of the GPUs that the source has read and that are now lost from the bus.
	Lost []string
	// Readings contains at most one entry per device. A device that did not respond in time has no entry.
	Readings []Reading
	// Events contains the driver's error events since the last report.
	Events []DriverEvent
	// Fields is the content of the field page, or nil if there is no field page.
	Fields *FieldPage
}

// Reading is one reading of one GPU. Any value may be missing.
type Reading struct {
	UUID string
	// At is the time immediately after the energy counter was read. Took is the duration of the call that read
	// the counter. The value of the counter may be older than At by up to this duration.
	At   Instant
	Took time.Duration
	// Energy is the board's energy since the driver was loaded (NVML nvmlDeviceGetTotalEnergyConsumption, or
	// field 191 with scope GPU). If the board has no counter, Energy is the integral of power.
	Energy *Millijoules
	// PowerSum is the integral of the GPU's power since the exporter started, even if the GPU has a counter. It
	// is nil if this reading contains no power.
	PowerSum *Millijoules
	// ModulePower is set if Energy covers a whole module. In this case ModuleShare is the GPU's share of the module's
	// energy, from 0 to 1. The sampler computes the share. A share of 0 means that the energy is not divided.
	ModulePower ModulePower
	ModuleShare float64

	// QuietPower is the power of the GPU between kernels (NVML nvmlDeviceGetSamples, power and utilisation). It covers
	// the time since an earlier reading. It has the same scope as Energy. It is 0 if a kernel ran all the time.
	// QuietSampled is set if the driver provides these samples.
	QuietPower   Watts
	QuietSampled bool

	// Throttled contains counters of the time for which the GPU was throttled since the exporter started. It is
	// nil if the counters are unknown.
	Throttled *ThrottledTimes

	Gauges     Gauges
	PowerLimit *Watts // enforced power limit
	// SharesMemory is set if the GPU has no memory of its own. In this case the total memory is the memory of the
	// machine.
	SharesMemory bool
	// RowRemap is nil in MIG mode, or if the GPU cannot remap rows of its memory.
	RowRemap *RowRemap
	// Recovery is the action that the driver requires to recover the GPU (NVML_FI_DEV_GET_GPU_RECOVERY_ACTION),
	// or RecoveryNone. If the driver does not report an action, Recovery is empty. If the exporter has no name
	// for the action, Recovery is the driver's number for it.
	Recovery string
	// Health contains the health values, which are read every ten seconds. A value that the GPU does not report
	// is missing. The slice is never modified.
	Health []HealthValue
	// Details contains the values of health metrics with [HealthInfo.Detail], if they are enabled. Modes and
	// versions are read every ten minutes. The slice is never modified.
	Details []HealthValue
	// NVLinkRate is the data rate over all NVLink links in both directions, in bytes per second. It is an average over
	// the time between the last two readings of Health. It is nil if the rate is unknown.
	NVLinkRate *float64
	// Profile is the profile of the GPU. It is nil if profiling is disabled, or if the GPU is older than Hopper.
	Profile *Profile
	// InstanceProfiles contains the profiles of MIG instances. Instances without a profile are missing.
	InstanceProfiles []InstanceProfile
	// Counters contains the error counters of parts of the GPU. The counters are read together with Health. The
	// slice is never modified.
	Counters []Counter
	// RASErrors contains the errors that an AMD GPU counted, by block and type. Unknown counts are missing.
	RASErrors []RASErrors

	// Contexts contains the processes with a context on the GPU, with one entry per process. It is valid only if
	// ContextsKnown is set.
	Contexts      []Context
	ContextsKnown bool
	// Samples contains the activity of processes since the last reading, oldest first. Together the samples cover the
	// span Sampled. Samples is valid only if SamplesKnown is set. An empty list then means that no process was active.
	Samples      []Sample
	Sampled      Span
	SamplesKnown bool
	// WeightedSamples is set if the activity of processes was estimated by dividing the activity of the GPU. Averages
	// of such samples over a minute or more are accurate enough to divide energy, but not to report the utilisation of
	// a process.
	WeightedSamples bool
	// Instances contains the activity of the MIG instances. It is valid only if InstancesKnown is set. In this
	// case every instance has an entry.
	Instances      []InstanceSample
	InstancesKnown bool
}

// ModulePower contains the power of a GPU and the power of its module. Both are averages over one second
// (NVML_FI_DEV_POWER_AVERAGE, field 185, by scope). A power is 0 if the driver does not report it.
type ModulePower struct{ GPU, Module Watts }

// The values of [Reading.Recovery].
const (
	RecoveryNone          = "none"
	RecoveryReset         = "reset"
	RecoveryReboot        = "reboot"
	RecoveryDrainP2P      = "drain_p2p"
	RecoveryDrainAndReset = "drain_and_reset"
	RecoveryIMEX          = "recover_imex"
	RecoveryBusReset      = "bus_reset"
	RecoverySystemReboot  = "system_reboot"
)

// Recoveries contains the values of [Reading.Recovery], indexed by the driver's number (nvml.h,
// nvmlDeviceGpuRecoveryAction_t).
var Recoveries = []string{
	RecoveryNone, RecoveryReset, RecoveryReboot, RecoveryDrainP2P, RecoveryDrainAndReset, RecoveryIMEX, RecoveryBusReset, RecoverySystemReboot,
}

// RowRemap describes the state of row remapping (NVML nvmlDeviceGetRemappedRows, DCGM fields 395 and 396; Ampere and
// newer). A GPU replaces faulty rows of its memory with spare rows.
type RowRemap struct {
	// Pending is set while a remap waits for the next reset of the GPU.
	Pending bool
	// Failed is set permanently if no spare row was left for a faulty row.
	Failed bool
	// Correctable is the number of rows that were remapped after a correctable memory error. Uncorrectable is the
	// number of rows that were remapped after an uncorrectable error. Both numbers cover the lifetime of the board.
	Correctable, Uncorrectable int
}

// RASErrors counts the errors of one type in one block of a GPU since the driver was loaded (amdgpu,
// ras/<block>_err_count). The block umc contains the memory controllers. RAS stands for reliability, availability and
// serviceability.
type RASErrors struct {
	Block string
	Type  RASType
	Count uint64
}

// RASType is the type of an error.
type RASType string

// The types of errors.
const (
	RASCorrectable   RASType = "correctable"
	RASUncorrectable RASType = "uncorrectable"
	// RASDeferred is an uncorrectable error in data that has not been used yet.
	RASDeferred RASType = "deferred"
)

// Span is a time span on the boot clock.
type Span struct{ From, To time.Duration }

// Len returns the duration of the span.
func (s Span) Len() time.Duration { return s.To - s.From }

// Overlap returns the duration of the intersection of two spans.
func (s Span) Overlap(t Span) time.Duration {
	return max(0, min(s.To, t.To)-max(s.From, t.From))
}

// Context describes a process that holds a compute, graphics or MPS context (NVML
// nvmlDeviceGet{Compute,Graphics,MPSCompute}RunningProcesses).
type Context struct {
	PID uint32
	// GPUInstance is the MIG instance of the context, or empty for a whole GPU. With CUDA a process can use only
	// one instance.
	GPUInstance string
	// MemoryUsed is the used memory in bytes, or nil if the driver does not report it.
	MemoryUsed *uint64
	// MPS is set if the process is a client of an MPS server.
	MPS bool
}

// Sample describes the activity of one process on a GPU, averaged over a span. The source is the driver's buffer of
// utilisation samples (NVML nvmlDeviceGetProcessUtilization, six or seven samples per second) or the driver's process
// accounting (nvmlDeviceGetAccountingStats_v2). On AMD GPUs, amdkfd reports the number of compute units that the
// process occupies at one moment; see [Reading.WeightedSamples].
type Sample struct {
	PID uint32
	Span
	SM     float64 // utilisation of the multiprocessors, 0 to 1
	Memory float64 // utilisation of the memory, 0 to 1
}

// InstanceSample describes the activity of a MIG instance, averaged over a span. The activity is the fraction of
// the time in which the multiprocessors of the instance had a resident warp (NVML nvmlGpmMetricsGet,
// NVML_GPM_METRIC_SM_UTIL).
type InstanceSample struct {
	Instance string // GPU instance id
	Span
	SM float64 // activity, 0 to 1
}

// DriverEvent describes one error event of the driver (NVML nvmlEventTypeXidCriticalError).
type DriverEvent struct {
	UUID string
	Code uint64
	At   time.Time
	// Earlier is the number of earlier errors with the same code that were merged into this event. The times of
	// these errors are lost.
	Earlier uint64
}

// maxWaiting is the number of queued errors above which errors are merged.
const maxWaiting = 1024

// Queue appends x to a queue that waits for the next report, which may be days later. If the queue is full, Queue
// merges the oldest error with the same GPU and code into x. The merged error still counts, but its time is lost.
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
