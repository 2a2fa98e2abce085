package gpu

import "time"

// ProcessID names one process for ever: a PID alone is reused.
type ProcessID struct {
	PID uint32 `json:"pid"`
	// Start is field 22 of /proc/<pid>/stat, in raw clock ticks since boot.
	Start uint64 `json:"start"`
}

// Process is what /proc says about a process that uses a GPU. Many refer to one: it is
// not changed any more once it was handed on.
type Process struct {
	ID ProcessID
	// Name is /proc/<pid>/comm, read once; it may hold any bytes.
	Name string
	// StartTime is ID.Start on the wall clock.
	StartTime time.Time
	Owner     Owner
}

// OwnedBy returns the process with another owner: itself, if that is its owner already.
func (p *Process) OwnedBy(o Owner) *Process {
	if p.Owner == o {
		return p
	}
	other := *p
	other.Owner = o
	return &other
}

// Container names one container of one pod. A pod that is created again under
// its old name has another UID and is another pod.
type Container struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"pod_uid"`
	Container string `json:"container"`
}

// Pod names one pod.
type Pod struct{ Namespace, Name, UID string }

// OfPod returns the container's pod.
func (c Container) OfPod() Pod { return Pod{c.Namespace, c.Pod, c.PodUID} }

// Known reports whether nothing of the pod's name is missing.
func (p Pod) Known() bool { return p.Namespace != "" && p.Name != "" && p.UID != "" }

// Owner is whom a process belongs to.
type Owner struct {
	Kind      OwnerKind
	Container Container // set for OwnerContainer
	// ContainerID is the runtime's id, 64 hex digits; may be empty.
	ContainerID string
}

// OwnerKind tells the kinds of owners apart.
type OwnerKind int

// The kinds of owners. The zero value is not final: the process was seen, but
// whom it belongs to is not known yet.
const (
	OwnerPending   OwnerKind = iota
	OwnerContainer           // a container of a pod
	OwnerHost                // a process of the host, outside all pods
	OwnerUnmapped            // a pod's process, or a vanished one, that could not be named
)

// String returns the word used on the page and in logs.
func (k OwnerKind) String() string {
	return [...]string{"pending", "container", "host", "unmapped"}[k]
}

// Allocation is a device that the kubelet gave to a container.
type Allocation struct {
	// Device is the device in the kubelet's words.
	Device DeviceName
	// UUID is the GPU that this names, GPUInstance its MIG instance, empty for a whole
	// GPU. Both are empty until the name was looked up among the driver's devices.
	UUID        string
	GPUInstance string
	// Container has an empty PodUID as long as that is not known, and an empty name
	// where several containers of the pod share a claim.
	Container Container
	// Resource is the extended resource, such as nvidia.com/gpu; Claim the
	// resource claim of a device allocated by DRA.
	Resource string
	Claim    string
	Sharing  Sharing
	// Replicas counts the time-slicing or MPS replicas held; 1 for a whole GPU.
	Replicas int
	// Live is set while the pod is known to be alive.
	Live bool
}

// DeviceName names a GPU or a MIG device in one of the ways in which device plugins
// and DRA drivers do.
type DeviceName struct {
	// UUID is GPU-… or MIG-…. Without one the GPU is numbered: Index is the driver's
	// order, Minor the number of /dev/nvidia<n>.
	UUID         string
	Index, Minor *int
	// MIG names a MIG device of that GPU, nil for the GPU itself.
	MIG *MIGName
}

// MIGName names a MIG device of a GPU, in one of three ways.
type MIGName struct {
	Ordinal          *int   // the driver's index of it
	Instance         string // its GPU instance id
	ProfileID, Start *int   // its profile's number and where it begins
}

// Sharing says how a container holds a GPU.
type Sharing string

// The ways a container can hold a GPU.
const (
	SharingExclusive   Sharing = "exclusive"
	SharingTimeSlicing Sharing = "time-slicing" // or MPS: the kubelet does not tell
	SharingMIG         Sharing = "mig"
	SharingNone        Sharing = "none" // uses it without an allocation
	SharingUnknown     Sharing = ""     // uses it; whether it was given it is not known
)

// Allocations is the kubelet's latest word on who holds which device.
type Allocations struct {
	// Known is false while the kubelet's answer is missing or too old to count.
	// A node without a kubelet is Known, with an empty list.
	Known bool
	// NoKubelet is set where there is none: nobody holds a device, and nobody needs to.
	NoKubelet bool
	// Asked is when the kubelet was asked for the list (boot clock). What it gave to a
	// container that was there by then is on it.
	Asked time.Duration
	List  []Allocation
}
