package gpu

import (
	"iter"
	"maps"
	"time"
)

// Snapshot is one complete, immutable state of the exporter. A scrape renders the latest snapshot
// and reads nothing else.
type Snapshot struct {
	At      Instant
	Node    Node
	Drivers []Driver // empty while no source responds
	// PCIGPUs counts the GPUs on the PCI bus, and DriverGPUs counts the GPUs that the drivers list.
	// They are nil while unknown.
	PCIGPUs    *int
	DriverGPUs *int
	// GPUs are all GPUs found in this boot, present or lost, by PCI address.
	GPUs []GPU
	// NVSwitches contains the errors of NVSwitches by address, code and severity.
	NVSwitches []NVSwitchErrors
	// Units describes units that hold, use or recently used a GPU, as far as their data are known.
	Units  map[Unit]UnitInfo
	Stages []Stage
	// Fields is the content of the field page, or nil if there is no field page.
	Fields *FieldPage
}

// GPU is the state of one GPU at the time of a snapshot.
type GPU struct {
	Device
	Present bool
	// Renamed is the time at which a serial number of the GPU became known or changed after the GPU
	// was first found in this boot. Usually it is zero.
	Renamed time.Time
	// Reading is the latest reading, or nil while the GPU does not respond. Its lists are empty,
	// because their content is in Processes and in the book.
	Reading *Reading
	// LastReading is the time of the last reading.
	LastReading time.Time
	// Recent is nil while the GPU does not respond, and until the GPU has been read for [RecentTime].
	Recent *Recent
	Events DriverEvents
	// Totals are the sums of [Reading.Counters]. They continue when a part, the driver or the exporter
	// restarts.
	Totals []HealthValue
	// Holders are the owners that currently hold or use the GPU. The list is complete if
	// HoldersKnown is set.
	Holders      []Holder
	HoldersKnown bool
	// Processes are the processes that are currently on the GPU.
	Processes []LiveProcess
	// Strays counts the processes on the GPU that belong to groups without an allocation of the GPU.
	// Unused counts the allocations of the GPU that no process uses. Both are nil while they are
	// unknown, and on a machine where GPUs are used without allocations.
	Strays, Unused *int
	// Book is nil while energy must not be charged, and after the book of a lost GPU was closed.
	Book *Book
	// Intervals are the recent intervals of the book, oldest first. The intervals do not change. The
	// field is nil if no intervals are kept.
	Intervals iter.Seq[Interval]
}

// DriverEvents counts the XID errors and the losses of a GPU in this boot.
type DriverEvents struct {
	// Since is the time at which counting began.
	Since time.Time `json:"since"`
	Count uint64    `json:"count"`
	// First and Last contain the times of the first and the last error by XID code. A state file of an older version
	// does not contain First.
	First map[uint64]time.Time `json:"first,omitempty"`
	Last  map[uint64]time.Time `json:"last,omitempty"`
	// ByCode counts the errors by XID code. A state file of an older version does not contain these
	// counts, so Count may exceed their sum.
	ByCode map[uint64]uint64 `json:"by_code,omitempty"`
	// Driver and Kernel count the errors by origin. Driver counts the events of the driver. Kernel
	// counts the lines of the kernel's log, which also contains a line for each event. ByCode is the
	// larger of the two counts. Kernel is nil if the log never contained an error.
	Driver map[uint64]uint64 `json:"driver,omitempty"`
	Kernel map[uint64]uint64 `json:"kernel,omitempty"`
	// Records is the sequence number after the last counted record of the kernel's log.
	Records uint64 `json:"records,omitempty"`
	// Losses is the number of times that the driver stopped listing the GPU.
	Losses uint64 `json:"losses,omitempty"`
	// Reset is the time at which a reset of the GPU or a reload of its driver was last detected, because its energy counter
	// restarted or it returned after a loss.
	Reset time.Time `json:"reset,omitzero"`
}

// Add counts the event and the earlier errors that it includes.
func (x *DriverEvents) Add(e DriverEvent) {
	n := 1 + e.Earlier
	if x.Kernel != nil {
		if x.Driver == nil {
			x.Driver = make(map[uint64]uint64)
		}
		x.Driver[e.Code] += n
		n = exceeds(x.Driver[e.Code], x.ByCode[e.Code])
	}
	x.count(e.Code, n, e.At)
}

// AddKernel counts an error in the kernel's log, unless its record was counted before, or the error
// is also an event of the driver. It compares counts, and not times, because counts are correct
// even if an event is received late.
func (x *DriverEvents) AddKernel(e KernelError) {
	if e.Sequence < x.Records {
		return
	}
	x.Records = e.Sequence + 1
	if x.Kernel == nil {
		x.Kernel, x.Driver = make(map[uint64]uint64), maps.Clone(x.ByCode)
	}
	x.Kernel[e.Code]++
	x.count(e.Code, exceeds(x.Kernel[e.Code], x.ByCode[e.Code]), e.At)
	if e.At.Before(x.Since) {
		x.Since = e.At
	}
}

// exceeds returns a - b, or 0 if b is larger.
func exceeds(a, b uint64) uint64 { return max(a, b) - b }

// count adds n errors of a code, and updates the first and the last time of the code.
func (x *DriverEvents) count(code, n uint64, at time.Time) {
	x.Count += n
	if x.First == nil {
		x.First = make(map[uint64]time.Time)
	}
	if x.Last == nil {
		x.Last = make(map[uint64]time.Time)
	}
	if x.ByCode == nil {
		x.ByCode = make(map[uint64]uint64)
	}
	if first := x.First[code]; first.IsZero() && x.Last[code].IsZero() || at.Before(first) {
		x.First[code] = at
	}
	if at.After(x.Last[code]) {
		x.Last[code] = at
	}
	x.ByCode[code] += n
}

// Clone returns a copy that shares no data with x.
func (x DriverEvents) Clone() DriverEvents {
	x.First, x.Last, x.ByCode = maps.Clone(x.First), maps.Clone(x.Last), maps.Clone(x.ByCode)
	x.Driver, x.Kernel = maps.Clone(x.Driver), maps.Clone(x.Kernel)
	return x
}

// Holder is an owner that holds an allocation of a GPU, or uses the GPU without an allocation.
type Holder struct {
	AccountKey
	Resource string
	Claim    string
	Sharing  Sharing
	Replicas int
}

// LiveProcess is a process that is currently on a GPU.
type LiveProcess struct {
	*Process
	MemoryUsed *uint64 // bytes
	// SM and Memory give the utilisation by the process, from 0 to 1, averaged over the samples of the
	// last reading. They are nil if the driver does not report the utilisation.
	SM     *float64
	Memory *float64
}

// Stage is the health of one dependency of the exporter, after at least one attempt.
type Stage struct {
	Name     string
	Up       bool
	Duration time.Duration // time of the last attempt
	Failures uint64
	// Oversized counts the failures that were caused by an input larger than a limit of the exporter.
	Oversized uint64
	// LastSuccess is zero until the first success.
	LastSuccess time.Time
	// Err is the error of the last attempt, or empty if it succeeded.
	Err string
}
