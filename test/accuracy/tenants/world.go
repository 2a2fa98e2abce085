package tenants

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A World is a node with GPUs that tenants share.
type World struct {
	Name   string
	GPUs   []GPU
	Driver Driver
	// Before is the time for which the node runs before the exporter starts.
	Before time.Duration
	Length time.Duration
	Seed   uint64
}

// A GPU is a GPU and its tenants.
type GPU struct {
	Model string
	// Limit is the power limit, and Floor is the power without work, while contexts are open.
	Limit, Floor gpu.Watts
	// Configured is the idle power that the operator configured, or 0 if there is none.
	Configured gpu.Watts
	// Tail is the power that the GPU draws in addition right after work. This power falls to 1/e within
	// tailTime. The tail is a part of the work.
	Tail    gpu.Watts
	Tenants []Tenant
}

// A Tenant is a container that holds replicas of a GPU, and has one process on it.
type Tenant struct {
	Name string
	// Replicas is the number of held replicas; 0 means that the tenant holds no replica.
	Replicas int
	// Watts is the power of its work in addition to the floor.
	Watts float64
	// Load is its work, or nil if it never works.
	Load Load
	// Lifetime is the lifetime of its processes; 0 means that one process stays. A new process replaces
	// an ended process.
	Lifetime time.Duration
}

// Names selects the process that a sample names while nothing runs. The text in the driver's header
// allows three interpretations.
type Names int

// These are the interpretations of the header.
const (
	NamesActive Names = iota // a process that ran since the last sample, or else a process with a context
	NamesLast                // the process that ran last
	NamesNone                // no process, because there is no sample
)

func (n Names) String() string { return [...]string{"active", "last", "none"}[n] }

// A Driver is the driver's way to sample.
type Driver struct {
	Names Names
	// PerSecond is the number of samples of activity per second; 0 means 7.2.
	PerSecond float64
	// Power is the time over which the driver averages a sample of power. It is between a millisecond
	// and a second; 0 means that the driver has no samples.
	Power time.Duration
}

func (d Driver) String() string {
	return fmt.Sprintf("names %v, power over %v", d.Names, d.Power)
}

// These constants are the same in all worlds.
const (
	// phase is the delay between a full second of the simulation and the start of the exporter.
	phase = 450
	// counterStep is the time between two updates of the counter, in milliseconds.
	counterStep = 100
	// powerStep is the time between two samples of power, in milliseconds.
	powerStep = 20
	// drift is the part by which the floor changes with the temperature, and driftPeriod is the time
	// of a cycle in milliseconds.
	drift       = 0.01
	driftPeriod = 37 * 60 * 1000
	// noise is the standard deviation of a sample of power, in watts.
	noise = 1.0
	// tailTime is the time in which the power after work falls to 1/e, in milliseconds.
	tailTime = 1000
)
