package simnode

import (
	"fmt"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A Scenario describes a machine, its workloads and its events.
type Scenario struct {
	Name        string
	Description string // one line
	Node        string // the node's name in the cluster
	Driver      Driver
	// DMI contains the files of /sys/class/dmi/id.
	DMI  map[string]string
	GPUs []GPU
	// Devices contains the devices on the PCI bus that are not GPUs of the scenario.
	Devices []PCIDevice
	// Daemons contains the processes of the host. The first process has PID 1.
	Daemons []Daemon
	Pods    []Pod
	Units   []Unit
	// Files contains files that exist from the start, by path below the node's directory.
	Files map[string]string
	// NoKubelet is set on a machine without Kubernetes.
	NoKubelet bool
	// Claims contains the resource claims for which DRA has allocated devices. A node runs either a device plugin or a
	// DRA driver. Therefore the device plugin offers no GPUs if there are claims.
	Claims []Claim
	// GooglePlugin selects Google's device plugin on GKE instead of NVIDIA's plugin.
	GooglePlugin bool
	// PodsAPI is set if the kubelet serves its Pods API, which exists since Kubernetes 1.37.
	PodsAPI bool
	// PrivatePIDs is set if the exporter's container has its own PID namespace, because hostPID is not set.
	PrivatePIDs bool
	Events      []Event
	Sampling    Sampling
	// NoTruth limits the truth to its first row. Writing the rows takes about a fifth of the processor time of a
	// simulated node, and more with thousands of short-lived processes.
	NoTruth bool
}

// Driver contains the version of the driver and the version of NVML.
type Driver struct{ Version, NVML string }

// GPU describes one physical GPU.
type GPU struct {
	UUID   string // the driver's unique_id with 16 hex digits for an AMD GPU
	Bus    string // address in NVML's format: 00000000:1B:00.0
	Model  string
	Serial string // serial number of the board; two GPUs may share a board
	Part   string
	VBIOS  string
	Place  *Place  // nil if the GPU reports no platform info
	Fabric *Fabric // nil if the GPU is not in an NVLink fabric
	// Floor is the power in watts while nothing runs.
	Floor    int
	Limit    int    // enforced power limit in watts
	MaxLimit int    // highest limit that can be set, in watts
	Memory   uint64 // bytes
	// Counter is the value of the board's energy counter at the start of the simulation.
	Counter gpu.Millijoules
	Counts  Counts
	// Replicas is the number of replicas that the device plugin offers by time-slicing or MPS. It is 0 if the GPU is
	// not shared.
	Replicas int
	MIG      *MIG // nil if the GPU is not in MIG mode
	// GPM is set if the driver reports the busy time of instances, as it does for Hopper and newer GPUs.
	GPM bool
	// Throttle contains the percentage of time in which the driver throttles the GPU, by cause.
	Throttle [gpu.NumThrottles]int
	// Generation determines the health values that an NVIDIA GPU reports.
	Generation Generation
	// Defects change the health of a GPU over time. An AMD GPU supports only memory errors, RowsUncorrectable,
	// HardwareThermal, ClockReduction and Heat.
	Defects []Defect
	// Accounting is set if an administrator has enabled the driver's accounting mode.
	Accounting bool
	// AMD is nil for an NVIDIA GPU. An AMD GPU must have no Place, Fabric, Counts, Replicas, GPM or Accounting.
	AMD *AMD
}

// Place describes where a GPU is in its chassis.
type Place struct {
	Chassis                        string // at most 15 bytes
	Slot, Tray, Host, Peer, Module int
}

// Fabric describes the NVLink domain of a GPU. The domain is fully configured.
type Fabric struct {
	Cluster string // 32 hex digits
	Clique  int
}

// Counts describes which energy counters the driver provides for a GPU.
type Counts int

// On a board with two GPUs, nvmlDeviceGetTotalEnergyConsumption may return the energy of the whole module for both
// GPUs.
const (
	CountsGPU    Counts = iota // the plain counter counts the GPU
	CountsScoped               // the plain counter counts the module; field 191 has both scopes
	CountsModule               // the plain counter counts the module; field 191 has only the module's scope
)

// PCIDevice is a device on the PCI bus that is not a GPU of the scenario. The numbers are in the format of sysfs.
type PCIDevice struct {
	Address, Vendor, Device, Class string
	Driver                         string // kernel driver that uses the device, or empty
	Function                       string // address of the physical function of a virtual function, otherwise empty
}

// Daemon is a process on the host.
type Daemon struct {
	Cgroup string // path of its cgroup in the unified hierarchy
	Process
}

// Process describes a process and its work on GPUs.
type Process struct {
	Comm string // at most 15 bytes, without NUL and newline
	// Title is the beginning of the command line.
	Title string
	UID   int
	Work  []Work
	// Below is the path of the process's cgroup, relative to the container's cgroup. It is set only if a runtime inside
	// the container has created the cgroup.
	Below string
	// Lifetime is the time after which a new process replaces the process in its container, or 0 for no limit.
	Lifetime time.Duration
}

// Work describes the work of a process on one GPU. The process also has a context on this GPU.
type Work struct {
	GPU int // position in the scenario's list of GPUs
	// Instance is the position of the MIG instance in the GPU's list of instances.
	Instance int
	// Watts is the power that the process adds to the floor while it keeps the GPU or the instance fully busy. An
	// exporter cannot measure this power.
	Watts   int
	Load    Pattern
	Memory  uint64 // bytes
	Context Context
}

// Context is the kind of context that a process has on a GPU.
type Context int

// The work of MPS clients runs through the context of their server, so utilisation samples name the server's PID. A
// channel belongs to the process that created its RM client (NVIDIA open-gpu-kernel-modules, kernel_channel.c).
const (
	Compute Context = iota
	Graphics
	MPSServer // listed as a compute context
	MPSClient
	Monitor // no context; amdkfd lists every process that has opened its device
)

// Pod describes a pod with its containers.
type Pod struct {
	Namespace, Name string
	QoS             string // burstable, besteffort, or empty for guaranteed
	Containers      []Container
	// Lifetime is the time after which the pod ends, or 0 for no limit. After the time Pause, a new pod replaces it.
	// The new pod has the same GPUs, but another name, another UID and other processes.
	Lifetime, Pause time.Duration
	Span
	Unit *Unit // set if the pod represents a unit
}

// Span is the time in which something exists, relative to the start of the simulation. The zero Span has no end.
type Span struct {
	From  time.Duration
	Until time.Duration // exclusive; 0 for no end
}

func (s Span) covers(t time.Duration) bool { return t >= s.From && (s.Until == 0 || t < s.Until) }

// Container describes a container with its allocations and processes.
type Container struct {
	Name      string
	Devices   []Device // devices from the device plugin
	Claims    []int    // positions in the scenario's list of claims
	Processes []Process
}

// Event describes an event on the machine.
type Event struct {
	At  time.Duration // time since the start
	Do  Action
	GPU int // position in the scenario's list of GPUs; used by FallOff, ReportXID and ResetGPU
	XID int // for ReportXID
	// Driver is the driver that LoadDriver loads. If it is nil, LoadDriver loads the current driver again.
	Driver *Driver
}

// Action is the kind of an event.
type Action int

// A lost GPU draws no power and counts no energy. Until the driver is reloaded, it stays on the PCI bus, and the driver
// reports it as lost. While no driver is loaded, no process works on the GPUs. Unlike on a real machine, the processes
// do not end. Pods start and end even while the kubelet is stopped.
const (
	FallOff      Action = iota // the GPU is lost, XID 79; not for AMD
	UnloadDriver               // every call of NVIDIA's driver fails
	LoadDriver                 // lost GPUs are removed, the others are renumbered, and counters start at zero
	StopKubelet                // the sockets of the kubelet are removed
	StartKubelet               // the kubelet creates new sockets
	ResetGPU                   // the GPU is no longer lost, and its counter starts at zero
	ReportXID                  // the driver reports an XID error; not for AMD
)

// Scenarios returns all scenarios of the package.
func Scenarios() []Scenario {
	return []Scenario{
		dgxH100(), gb200(), gb200Module(), idle(), churn(), jobs(), lost(),
		sick(), throttled(), timeslice(), accounted(), mps(), mig(), migA100(), dra(), hog(), noHostPID(), cheats(),
		slurm(), slurmV1(), workstation(), mi300x(), mixed(), vulkan(),
	}
}

// Lookup returns the scenario with the given name.
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
