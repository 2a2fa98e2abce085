package gpu

import (
	"iter"
	"maps"
	"time"
)

// Snapshot is one complete, immutable state of the exporter. A scrape only renders the latest snapshot.
type Snapshot struct {
	At      Instant
	Node    Node
	Drivers []Driver // empty if no source responds
	// PCIGPUs is the number of GPUs on the PCI bus, and DriverGPUs is the number of GPUs that the drivers list. Each of
	// these numbers is nil while it is unknown.
	PCIGPUs    *int
	DriverGPUs *int
	// GPUs contains all GPUs that were found in this boot, including lost GPUs. It is sorted by PCI address.
	GPUs []GPU
	// NVSwitches contains the counted SXID errors by NVSwitch, code and severity.
	NVSwitches []NVSwitchErrors
	// Units describes the units that hold, use or recently used a GPU. A unit is missing if no data about it is known.
	Units  map[Unit]UnitInfo
	Stages []Stage
	// Fields is the content of the field page, or nil if there is no field page.
	Fields *FieldPage
}

// GPU describes one GPU at the time of a snapshot.
type GPU struct {
	Device
	Present bool
	// Renamed is the last time in this boot at which a serial number of the GPU changed or became known. The first
	// reading of the GPU does not count. Renamed is zero if there was no change.
	Renamed time.Time
	// Reading is the latest reading, or nil while the GPU does not respond. To save memory, the lists Contexts, Samples
	// and Instances are removed from it.
	Reading *Reading
	// LastReading is the time of the last reading.
	LastReading time.Time
	// Silent is the time since the last reading, without times when the GPU's driver did not respond, an operator had
	// released the GPU, or no exporter ran.
	Silent time.Duration
	// Recent is nil while the GPU does not respond, and until the GPU has been read for [RecentTime].
	Recent *Recent
	Events DriverEvents
	// Totals contains the sums of [Reading.Counters]. The sums do not restart when a part of the GPU, the driver or the
	// exporter restarts.
	Totals []HealthValue
	// TotalsSince is the time of the boot, because the totals were 0 at the boot. It is the zero time while there are no
	// counters.
	TotalsSince time.Time
	// Holders contains the owners that currently hold or use the GPU. The list is complete if HoldersKnown is set.
	Holders      []Holder
	HoldersKnown bool
	// Processes describes each process that currently has a context on the GPU.
	Processes []LiveProcess
	// Strays is the number of processes on the GPU whose pod or unit has no allocation of the GPU. Unused is the number
	// of allocations of the GPU that no process uses. Both are nil while they are unknown, and on machines where
	// allocations are optional.
	Strays, Unused *int
	// Book is nil in three cases: the state file was not read yet, another exporter charges the energy of this machine,
	// or the GPU has been lost for the retention time.
	Book *Book
	// Intervals returns the recently charged intervals, oldest first. The intervals never change. Intervals is nil if
	// the ledger keeps no intervals.
	Intervals iter.Seq[Interval]
}

// DriverEvents counts the XID errors and the losses of a GPU since the machine booted, and contains their times.
type DriverEvents struct {
	// Since is the time at which counting began.
	Since time.Time `json:"since"`
	Count uint64    `json:"count"`
	// First and Last contain the time of the first and the last error of each XID code. A state file of an older version
	// does not contain First.
	First map[uint64]time.Time `json:"first,omitempty"`
	Last  map[uint64]time.Time `json:"last,omitempty"`
	// ByCode contains the number of errors by XID code. A state file of an older version does not contain these numbers,
	// so Count may exceed the sum over ByCode.
	ByCode map[uint64]uint64 `json:"by_code,omitempty"`
	// Driver contains the number of driver events by XID code. Kernel contains the number of lines in the kernel's log
	// by XID code. Each driver event also has a line in the log, so ByCode contains the larger of the two numbers and
	// not their sum. Kernel is nil if the log never contained an error.
	Driver map[uint64]uint64 `json:"driver,omitempty"`
	Kernel map[uint64]uint64 `json:"kernel,omitempty"`
	// Records is one more than the sequence number of the last kernel log record that was counted.
	Records uint64 `json:"records,omitempty"`
	// Losses is the number of times that the driver stopped listing the GPU.
	Losses uint64 `json:"losses,omitempty"`
	// Reset is the time at which the exporter last detected a reset of the GPU or a reload of its driver. It detects
	// them when the energy counter restarts, or when the GPU returns after a loss.
	Reset time.Time `json:"reset,omitzero"`
}

// Add counts the event e and the earlier errors that were merged into e.
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

// AddKernel counts an error in the kernel's log. It skips an error that was already counted from the log or from an
// event of the driver. To detect such an event, AddKernel compares the number of lines in the log with the number of
// events. It does not compare times, because an event may arrive late.
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

func exceeds(a, b uint64) uint64 { return max(a, b) - b }

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

// Holder describes an owner that holds an allocation of a GPU, or uses the GPU without an allocation.
type Holder struct {
	AccountKey
	Resource string
	Claim    string
	Sharing  Sharing
	Replicas int
}

// LiveProcess describes a process that is currently on a GPU.
type LiveProcess struct {
	*Process
	MemoryUsed *uint64 // used memory in bytes
	// SM and Memory are the process's utilisation, from 0 to 1, averaged over the samples of the last reading. Both are
	// nil if the driver does not report the utilisation of the process.
	SM     *float64
	Memory *float64
}

// Stage describes the health of one dependency of the exporter. A stage exists only after the exporter has tried to
// use the dependency.
type Stage struct {
	Name     string
	Up       bool
	Duration time.Duration // duration of the last attempt
	Failures uint64
	// Oversized is the number of failures in which an input exceeded a size limit of the exporter.
	Oversized uint64
	// LastSuccess is zero until the first success.
	LastSuccess time.Time
	// Err is the error of the last attempt, or empty if the attempt succeeded.
	Err string
}
