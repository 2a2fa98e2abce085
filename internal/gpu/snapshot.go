package gpu

import (
	"maps"
	"time"
)

// Snapshot is one complete, immutable state of the exporter. A scrape renders
// the latest one and reads nothing else.
type Snapshot struct {
	At      Instant
	Node    Node
	Drivers []Driver // none while no source of readings answers
	// PCIGPUs counts the GPUs on the PCI bus, DriverGPUs those the drivers
	// answer for; nil while unknown.
	PCIGPUs    *int
	DriverGPUs *int
	// GPUs are all GPUs seen in this boot, present or lost, by PCI address.
	GPUs   []GPU
	Stages []Stage
	// Fields is what the field page shows, nil if there is none.
	Fields *FieldPage
}

// GPU is all that is known of one GPU at the moment of a snapshot.
type GPU struct {
	Device
	Present bool
	// Renamed is when one of the GPU's serial numbers was learnt or changed after the
	// GPU was first seen in this boot; usually zero.
	Renamed time.Time
	// Reading is the live reading, nil while the GPU does not answer. It has no lists:
	// what they say is in Processes and in the book.
	Reading *Reading
	// LastReading is when the GPU last answered.
	LastReading time.Time
	Events      DriverEvents
	// Holders are the owners that hold or use the GPU now, all of them if
	// HoldersKnown.
	Holders      []Holder
	HoldersKnown bool
	// Processes are the processes on the GPU now.
	Processes []LiveProcess
	// Strays counts the processes on the GPU whose pod was not given it, Unused the
	// allocations of it without a process; nil while that cannot be told, and where
	// there is no kubelet to give anything.
	Strays, Unused *int
	// Book is nil while nothing may be charged, or after the book of a lost GPU
	// was closed.
	Book *Book
}

// DriverEvents counts the XID errors and the losses of a GPU in this boot.
type DriverEvents struct {
	// Since is when counting began.
	Since time.Time `json:"since"`
	Count uint64    `json:"count"`
	// Last is the time of the last error by XID code.
	Last map[uint64]time.Time `json:"last,omitempty"`
	// ByCode has the errors by XID code. A state file of an earlier version has none, so
	// Count may exceed their sum.
	ByCode map[uint64]uint64 `json:"by_code,omitempty"`
	// Losses counts how often the driver stopped listing the GPU.
	Losses uint64 `json:"losses,omitempty"`
}

// Add counts one more error, and those before it.
func (x *DriverEvents) Add(e DriverEvent) {
	x.Count += 1 + e.Earlier
	if x.Last == nil {
		x.Last = make(map[uint64]time.Time)
	}
	if x.ByCode == nil {
		x.ByCode = make(map[uint64]uint64)
	}
	x.Last[e.Code] = e.At
	x.ByCode[e.Code] += 1 + e.Earlier
}

// Clone returns a copy that shares nothing with x.
func (x DriverEvents) Clone() DriverEvents {
	x.Last, x.ByCode = maps.Clone(x.Last), maps.Clone(x.ByCode)
	return x
}

// Holder is an owner that holds a GPU by allocation, or uses it without one.
type Holder struct {
	AccountKey
	Resource string
	Claim    string
	Sharing  Sharing
	Replicas int
}

// LiveProcess is a process that is on a GPU now.
type LiveProcess struct {
	*Process
	MemoryUsed *uint64 // bytes
	// SM and Memory are the process's utilisation, 0 to 1, over the samples of
	// the last reading; nil where the driver has no such signal.
	SM     *float64
	Memory *float64
}

// Stage is the health of one thing the exporter depends on, which was tried.
type Stage struct {
	Name     string
	Up       bool
	Duration time.Duration // of the last attempt
	Failures uint64
	// Oversized counts the failures for inputs that exceed a limit of the exporter.
	Oversized uint64
	// LastSuccess is zero until the first success.
	LastSuccess time.Time
	// Err says why the last attempt failed; it is empty if it did not.
	Err string
}
