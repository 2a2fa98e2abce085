package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Scenario is a machine, what runs on it, and what happens to it, as data.
type Scenario struct {
	Name        string
	Description string // one line
	Node        string // the node's name in the cluster
	Driver      Driver
	// DMI holds the files of /sys/class/dmi/id.
	DMI  map[string]string
	GPUs []GPU
	// Devices are the other devices on the PCI bus.
	Devices []PCIDevice
	// Daemons are the processes of the host; the first one is PID 1.
	Daemons []Daemon
	Pods    []Pod
	// Claims are the resource claims that DRA has satisfied. A node has either a
	// device plugin or a DRA driver: with claims, none of its GPUs is the plugin's.
	Claims []Claim
	// GooglePlugin makes the device plugin Google's on GKE, else it is NVIDIA's.
	GooglePlugin bool
	// PodsAPI lets the kubelet serve its Pods API, as it does from Kubernetes 1.37.
	PodsAPI bool
	// PrivatePIDs puts the exporter's container into a PID namespace of its own,
	// as without hostPID.
	PrivatePIDs bool
	// Events happen at their time, in order.
	Events []Event
	// Sampling is how the driver takes utilisation samples.
	Sampling Sampling
	// NoTruth leaves the truth untold after its first row: its rows are long where
	// thousands of processes come and go.
	NoTruth bool
}

// Driver is the driver's versions.
type Driver struct{ Version, NVML string }

// GPU is one physical GPU: its identity and how much it draws.
type GPU struct {
	UUID   string
	Bus    string // as NVML prints it: 00000000:1B:00.0
	Model  string
	Serial string // of the board; two GPUs may share one
	Part   string
	VBIOS  string
	Place  *Place  // nil where the GPU has no platform info
	Fabric *Fabric // nil where the GPU is in no NVLink fabric
	// Floor is the draw in watts while nothing runs.
	Floor    int
	Limit    int    // enforced power limit, watts
	MaxLimit int    // highest limit that can be set, watts
	Memory   uint64 // bytes
	// Counter is what the board has counted before the simulation begins.
	Counter gpu.Millijoules
	Counts  Counts
	// Replicas is how many times the device plugin offers the GPU, by time-slicing
	// or MPS; 0 if it is not shared.
	Replicas int
	MIG      *MIG // nil while the GPU is not in MIG mode
	// GPM lets the driver tell how busy instances are, as on Hopper and newer.
	GPM bool
	// Accounting lets the driver keep accounts of processes, as where an administrator
	// has switched that on.
	Accounting bool
}

// Place is where a GPU sits in its chassis.
type Place struct {
	Chassis                        string // at most 15 bytes
	Slot, Tray, Host, Peer, Module int
}

// Fabric is the NVLink domain of a GPU, completely configured.
type Fabric struct {
	Cluster string // 32 hex digits
	Clique  int
}

// Counts says which energy counters a GPU's driver offers.
type Counts int

// The kinds of energy counters. On a board of two GPUs, nvmlDeviceGetTotal-
// EnergyConsumption counts the whole module on either GPU.
const (
	CountsGPU    Counts = iota // the plain counter alone, and it counts the GPU
	CountsScoped               // the plain counter, and field 191 for both the GPU and the module
	CountsModule               // the plain counter, and field 191 for the module only
)

// PCIDevice is a device on the PCI bus that is no GPU of the scenario. The
// numbers are written as sysfs shows them.
type PCIDevice struct{ Address, Vendor, Device, Class string }

// Daemon is a process of the host.
type Daemon struct {
	Cgroup string // the path in the unified hierarchy
	Process
}

// Process is a program and the work it does on GPUs.
type Process struct {
	Comm string // at most 15 bytes, any but NUL and newline
	Work []Work
	// Below is a path below the container's cgroup, as a runtime inside the container
	// makes; usually empty.
	Below string
	// Lifetime, if set, is how long a process of a container lives before another one
	// takes its place.
	Lifetime time.Duration
}

// Work is what a process does on one GPU, and it implies a context there.
type Work struct {
	GPU int // position in the scenario's GPUs
	// Instance is the position of the MIG instance it runs on in the GPU's.
	Instance int
	// Watts is what the process draws above the floor while it keeps the GPU, or
	// the instance, entirely busy. It differs from process to process, which no
	// exporter sees.
	Watts   int
	Load    Pattern
	Memory  uint64 // bytes
	Context Context
}

// Context is the kind of a context on a GPU.
type Context int

// The kinds of contexts. What MPS clients do runs through the context of their
// server, whose PID the utilisation samples name (NVIDIA open-gpu-kernel-modules,
// kernel_channel.c: a channel is of the process that made its RM client).
const (
	Compute Context = iota
	Graphics
	MPSServer // listed as a compute context
	MPSClient
)

// Pod is a pod with its containers.
type Pod struct {
	Namespace, Name string
	QoS             string // burstable, besteffort, or empty for guaranteed
	Containers      []Container
	// Lifetime, if set, is how long a pod lives before another one with another
	// name, UID and processes takes its place and its GPUs, after a pause.
	Lifetime, Pause time.Duration
	Span
}

// Span is when something exists, since the start. Zero is for ever.
type Span struct {
	From  time.Duration
	Until time.Duration // not included; 0 for no end
}

// covers reports whether something exists at a time.
func (s Span) covers(t time.Duration) bool { return t >= s.From && (s.Until == 0 || t < s.Until) }

// Container is a container, what it holds by allocation and its processes.
type Container struct {
	Name      string
	Devices   []Device // from the device plugin
	Claims    []int    // positions in the scenario's claims
	Processes []Process
}

// Event is something that happens to the machine.
type Event struct {
	At  time.Duration // since the start
	Do  Action
	GPU int // position in the scenario's GPUs, for FallOff
}

// Action is the kind of an event.
type Action int

// The actions. A GPU that fell off the bus draws and counts nothing; it stays on
// the PCI bus and with the driver (as lost) until the driver is loaded again.
// Without a driver nothing runs, but processes survive: that is kinder than life.
// Without a kubelet pods come and go all the same.
const (
	FallOff      Action = iota // the GPU is lost, XID 79
	UnloadDriver               // every call fails
	LoadDriver                 // lost GPUs are gone, the others renumbered, counters begin at zero
	StopKubelet                // its sockets are gone
	StartKubelet               // its sockets are there again, new ones
)

// Scenarios lists the scenarios that come with the package.
func Scenarios() []Scenario {
	return []Scenario{
		dgxH100(), gb200(), gb200Module(), idle(), churn(), jobs(), lost(),
		timeslice(), accounted(), mps(), mig(), migA100(), dra(), hog(), noHostPID(), cheats(),
	}
}

// Lookup finds a scenario by its name.
func Lookup(name string) (Scenario, error) {
	var known string
	for _, sc := range Scenarios() {
		if sc.Name == name {
			return sc, nil
		}
		known += " " + sc.Name
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q, known are:%s", name, known)
}
