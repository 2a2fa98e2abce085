package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Scenario describes a machine, its workloads and its events, as data.
type Scenario struct {
	Name        string
	Description string // one line
	Node        string // the node's name in the cluster
	Driver      Driver
	// DMI contains the files of /sys/class/dmi/id.
	DMI  map[string]string
	GPUs []GPU
	// Devices are the other devices on the PCI bus.
	Devices []PCIDevice
	// Daemons are the processes of the host; the first one is PID 1.
	Daemons []Daemon
	Pods    []Pod
	Units   []Unit
	// Files exist from the start, by their path below the node's directory.
	Files map[string]string
	// NoKubelet is set on a machine without Kubernetes.
	NoKubelet bool
	// Claims are the resource claims that DRA has satisfied. A node has either a device plugin
	// or a DRA driver: with claims, the device plugin offers none of its GPUs.
	Claims []Claim
	// GooglePlugin selects Google's device plugin on GKE instead of NVIDIA's plugin.
	GooglePlugin bool
	// PodsAPI makes the kubelet serve its Pods API, as from Kubernetes 1.37.
	PodsAPI bool
	// PrivatePIDs gives the exporter's container its own PID namespace, as without hostPID.
	PrivatePIDs bool
	// Events happen at their time, in order.
	Events []Event
	// Sampling configures the driver's utilisation samples.
	Sampling Sampling
	// NoTruth writes only the first row of the truth. With thousands of short-lived processes the
	// rows would be long.
	NoTruth bool
}

// Driver contains the driver's versions.
type Driver struct{ Version, NVML string }

// GPU is one physical GPU: its identity and its power.
type GPU struct {
	UUID   string // for AMD, the driver's unique_id of 16 hex digits
	Bus    string // in NVML's format: 00000000:1B:00.0
	Model  string
	Serial string // serial number of the board; two GPUs may share a board
	Part   string
	VBIOS  string
	Place  *Place  // nil if the GPU has no platform info
	Fabric *Fabric // nil if the GPU is in no NVLink fabric
	// Floor is the power in watts while nothing runs.
	Floor    int
	Limit    int    // enforced power limit, watts
	MaxLimit int    // highest limit that can be set, watts
	Memory   uint64 // bytes
	// Counter is the board's counter at the start of the simulation.
	Counter gpu.Millijoules
	Counts  Counts
	// Replicas is the number of replicas that the device plugin offers, by time-slicing or MPS;
	// 0 if the GPU is not shared.
	Replicas int
	MIG      *MIG // nil if the GPU is not in MIG mode
	// GPM makes the driver report how busy instances are, as on Hopper and newer.
	GPM bool
	// Throttle is the part of the time for which the driver throttles the GPU, in percent by cause.
	Throttle [gpu.NumThrottles]int
	// Generation decides the values of health that an NVIDIA GPU reports.
	Generation Generation
	// Defects change the health of an NVIDIA GPU over time.
	Defects []Defect
	// Accounting makes the driver keep accounts of processes, as after an administrator has
	// enabled it.
	Accounting bool
	// AMD is nil for an NVIDIA GPU. An AMD GPU has no Place, Fabric, Counts, Replicas, GPM or
	// Accounting.
	AMD *AMD
}

// Place is the place of a GPU in its chassis.
type Place struct {
	Chassis                        string // at most 15 bytes
	Slot, Tray, Host, Peer, Module int
}

// Fabric is the fully configured NVLink domain of a GPU.
type Fabric struct {
	Cluster string // 32 hex digits
	Clique  int
}

// Counts is the kind of energy counters that a GPU's driver offers.
type Counts int

// The kinds of energy counters. On a board of two GPUs, nvmlDeviceGetTotal-
// EnergyConsumption counts the whole module on either GPU.
const (
	CountsGPU    Counts = iota // the plain counter only; it counts the GPU
	CountsScoped               // the plain counter, and field 191 for both the GPU and the module
	CountsModule               // the plain counter, and field 191 for the module only
)

// PCIDevice is a device on the PCI bus other than the scenario's GPUs. The numbers are in the
// format of sysfs.
type PCIDevice struct {
	Address, Vendor, Device, Class string
	Driver                         string // the kernel driver that it is bound to, or empty
	Function                       string // the address of the physical function if it is a virtual one, or empty
}

// Daemon is a process of the host.
type Daemon struct {
	Cgroup string // the path in the unified hierarchy
	Process
}

// Process is a program and its work on GPUs.
type Process struct {
	Comm string // at most 15 bytes, any but NUL and newline
	// Title is the beginning of its command line.
	Title string
	UID   int
	Work  []Work
	// Below is a path below the container's cgroup, as created by a runtime inside the
	// container; usually empty.
	Below string
	// Lifetime, if set, is the time after which a process of a container is replaced by another
	// one.
	Lifetime time.Duration
}

// Work is a process's use of one GPU. It implies a context there.
type Work struct {
	GPU int // position in the scenario's GPUs
	// Instance is the position of its MIG instance in the GPU's instances.
	Instance int
	// Watts is the process's power above the floor while it keeps the GPU, or the instance,
	// completely busy. It differs between processes, which an exporter cannot measure.
	Watts   int
	Load    Pattern
	Memory  uint64 // bytes
	Context Context
}

// Context is the kind of a context on a GPU.
type Context int

// The kinds of contexts. The work of MPS clients runs through the context of their server, so
// utilisation samples name the server's PID (NVIDIA open-gpu-kernel-modules, kernel_channel.c: a
// channel belongs to the process that created its RM client).
const (
	Compute Context = iota
	Graphics
	MPSServer // listed as a compute context
	MPSClient
	Monitor // no context: amdkfd lists every process that opened its device
)

// Pod is a pod with its containers.
type Pod struct {
	Namespace, Name string
	QoS             string // burstable, besteffort, or empty for guaranteed
	Containers      []Container
	// Lifetime, if set, is the time after which a pod is replaced, after a pause, by another pod
	// with the same GPUs and another name, UID and processes.
	Lifetime, Pause time.Duration
	Span
	Unit *Unit // set if the pod represents a unit
}

// Span is the time in which something exists, since the start. The zero Span has no end.
type Span struct {
	From  time.Duration
	Until time.Duration // exclusive; 0 for no end
}

// covers reports whether the span includes a time.
func (s Span) covers(t time.Duration) bool { return t >= s.From && (s.Until == 0 || t < s.Until) }

// Container is a container with its allocations and processes.
type Container struct {
	Name      string
	Devices   []Device // from the device plugin
	Claims    []int    // positions in the scenario's claims
	Processes []Process
}

// Event is an event of the machine.
type Event struct {
	At  time.Duration // since the start
	Do  Action
	GPU int // position in the scenario's GPUs, for FallOff, ReportXID and ResetGPU
	XID int // for ReportXID
	// Driver is the driver to load, for LoadDriver; nil loads the same driver again.
	Driver *Driver
}

// Action is the kind of an event.
type Action int

// The actions. A GPU that fell off the bus draws and counts nothing. It stays on
// the PCI bus and with the driver (as lost) until the driver is reloaded. Without a driver no work
// runs, but processes survive, unlike on a real machine. Without a kubelet pods still start and
// end.
const (
	FallOff      Action = iota // the GPU is lost, XID 79; not for AMD
	UnloadDriver               // every call of NVIDIA's driver fails
	LoadDriver                 // lost GPUs are removed, the others renumbered, counters start at zero
	StopKubelet                // its sockets are removed
	StartKubelet               // it creates new sockets
	ResetGPU                   // the GPU is no longer lost, and its counter starts at zero
	ReportXID                  // the driver reports an XID error; not for AMD
)

// Scenarios returns the scenarios of the package.
func Scenarios() []Scenario {
	return []Scenario{
		dgxH100(), gb200(), gb200Module(), idle(), churn(), jobs(), lost(),
		sick(), throttled(), timeslice(), accounted(), mps(), mig(), migA100(), dra(), hog(), noHostPID(), cheats(),
		slurm(), slurmV1(), workstation(), mi300x(), mixed(), vulkan(),
	}
}

// Lookup returns the scenario with a name.
func Lookup(name string) (Scenario, error) {
	var known string
	for _, sc := range Scenarios() {
		if sc.Name == name {
			return sc, nil
		}
		known += " " + sc.Name
	}
	return Scenario{}, fmt.Errorf("unknown scenario %q, must be one of:%s", name, known)
}
