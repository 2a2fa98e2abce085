package tenants

import (
	"fmt"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A World describes a node with shared GPUs.
type World struct {
	Name   string
	GPUs   []GPU
	Driver Driver
	// Before is the time between the start of the node and the start of the exporter.
	Before time.Duration
	Length time.Duration
	Seed   uint64
}

// A GPU describes a GPU and its tenants.
type GPU struct {
	Model string
	// Limit is the power limit. Floor is the power while contexts are open but nothing runs.
	Limit, Floor gpu.Watts
	// Configured is the idle power that the operator configured, or 0.
	Configured gpu.Watts
	// Tail is the additional power right after work, which falls to 1/e within tailTime. Its energy belongs to the
	// work.
	Tail    gpu.Watts
	Tenants []Tenant
	// Slices contains the number of slices of each MIG instance. It is nil if the GPU is not divided. GPM is set if the
	// driver measures the activity of instances.
	Slices []int
	GPM    bool
	// MPS is set if the processes are clients of an MPS server. Such processes run at the same time.
	MPS MPS
	// AMD is set for an AMD GPU. The processes of a whole AMD GPU run at the same time.
	AMD AMD
}

// AMD describes how the driver of an AMD GPU reports the activity of the GPU.
type AMD int

// The exporter calculates the average since the last reading from a sum of activity (revisions 1.6 to 1.9 of
// gpu_metrics). In all other revisions, the driver reports an average over a fixed time, here 1 ms or 1 s.
const (
	NoAMD AMD = iota // an NVIDIA GPU
	AMDSums
	AMDShortAverage
	AMDLongAverage
)

func (a AMD) String() string {
	return [...]string{"no AMD GPU", "activity averaged since the last reading", "activity averaged over 1 ms", "activity averaged over 1 s"}[a]
}

// MPS describes which process the samples of an MPS server name.
type MPS int

// It is not known whether drivers name the server or the client.
const (
	NoMPS      MPS = iota // time-slicing
	MPSServer             // samples name the server
	MPSClients            // samples name the client that runs
)

// A Tenant describes a container that holds replicas of a GPU and has one process on it.
type Tenant struct {
	Name string
	// Replicas is the number of replicas that the tenant holds. Instance is the position of its MIG instance.
	Replicas, Instance int
	// Watts is the power of the work in addition to the floor.
	Watts float64
	// Load is nil if the tenant never works.
	Load Load
	// Units is the number of compute units that the tenant's waves occupy on an AMD GPU. 0 means half of the units.
	Units int
	// Lifetime is the time after which a new process replaces the tenant's process. 0 means that one process runs for
	// the whole simulation.
	Lifetime time.Duration
}

// Names selects the process that a sample names while nothing runs. The driver's header permits three interpretations.
type Names int

// While nothing runs, a sample names one of these processes.
const (
	NamesActive Names = iota // a process that ran since the last sample or, without such a process, a process with a context
	NamesLast                // the process that ran last
	NamesNone                // no process, because there is no sample at this time
)

func (n Names) String() string {
	return [...]string{"a process with a context", "the process that ran last", "no process"}[n]
}

// A Driver describes how the driver takes samples.
type Driver struct {
	Names Names
	// PerSecond is the number of samples of activity per second. 0 means 7.2.
	PerSecond float64
	// Power is the time over which the driver averages a sample of power, from a millisecond to a second. 0 means that
	// the driver takes no samples of power.
	Power time.Duration
}

func (d Driver) String() string {
	return fmt.Sprintf("idle samples name %v; power averaged over %s", d.Names, spaced(d.Power))
}

func spaced(d time.Duration) string {
	s := d.String()
	unit := strings.TrimLeft(s, "0123456789.")
	return strings.TrimSuffix(s, unit) + " " + unit
}

const (
	// phase is the delay from a full second of the simulation to the start of the exporter.
	phase = 450
	// counterStep is the time between two updates of the counter, in milliseconds.
	counterStep = 100
	// powerStep is the time between two samples of power, in milliseconds.
	powerStep = 20
	// drift is the fraction by which the floor changes with the temperature. driftPeriod is the length of a cycle in
	// milliseconds.
	drift       = 0.01
	driftPeriod = 37 * 60 * 1000
	// noise is the standard deviation of a sample of power, in watts.
	noise = 1.0
	// gpmStep is the interval at which the counters of GPM are updated. gpmOffset is the time of the first update. Both
	// are in milliseconds. The energy counter is updated at other times.
	gpmStep, gpmOffset = 100, 60
	// Within tailTime, in milliseconds, the power after work falls to 1/e.
	tailTime = 1000
)
