package gpu

import (
	"cmp"
	"fmt"
	"time"
)

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
	// ContainerID is the container runtime's id, 64 hex digits; empty outside containers.
	ContainerID string
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

// Owner owns processes, allocations and accounts. It is a value:
// other packages compare owners, and use no field but the kind. The fields mean, by kind:
//
//	            Scope      Name  UID      Part
//	OwnerPod    namespace  pod   pod UID  container
//	the others  empty
//
// A pod that is created again under its old name has another UID and is another owner.
type Owner struct {
	Kind  OwnerKind `json:"kind"`
	Scope string    `json:"scope,omitempty"`
	Name  string    `json:"name,omitempty"`
	// UID is empty while it is not known.
	UID string `json:"uid,omitempty"`
	// Part is empty while only the group is known.
	Part string `json:"part,omitempty"`
}

// Group returns the owner without its part. The accounts of a group retire together.
func (o Owner) Group() Owner {
	o.Part = ""
	return o
}

// Known reports whether scope, name and UID are known.
func (o Owner) Known() bool { return o.Scope != "" && o.Name != "" && o.UID != "" }

// Compare orders owners by kind, scope, name, UID and part.
func (o Owner) Compare(p Owner) int {
	return cmp.Or(
		cmp.Compare(o.Kind, p.Kind),
		cmp.Compare(o.Scope, p.Scope),
		cmp.Compare(o.Name, p.Name),
		cmp.Compare(o.UID, p.UID),
		cmp.Compare(o.Part, p.Part),
	)
}

// OwnerKind tells the kinds of owners apart.
type OwnerKind int

// The kinds of owners. The zero value is not final: the process was seen, but its owner is
// not known yet.
const (
	OwnerPending  OwnerKind = iota
	OwnerPod                // a container of a pod
	OwnerHost               // the host: a process outside all containers
	OwnerUnmapped           // unknown: a process that vanished, or whose container could not be named
	numOwnerKinds
)

// ownerKinds has a row for each kind.
var ownerKinds = [numOwnerKinds]struct {
	word string
	// reason is why energy of such an owner is charged to no account; NumReasons if it is.
	reason Reason
}{
	OwnerPending:  {"pending", Unmapped},
	OwnerPod:      {"pod", NumReasons},
	OwnerHost:     {"host", Host},
	OwnerUnmapped: {"unmapped", Unmapped},
}

// String returns the word used in logs and in the state file.
func (k OwnerKind) String() string { return ownerKinds[k].word }

// Unattributed returns the reason why energy of such an owner is charged to no account, or
// false if it has an account.
func (k OwnerKind) Unattributed() (Reason, bool) {
	r := ownerKinds[k].reason
	return r, r != NumReasons
}

// HasAccount reports whether energy of such an owner is charged to an account.
func (k OwnerKind) HasAccount() bool {
	_, unattributed := k.Unattributed()
	return !unattributed
}

// MarshalText returns the word of the kind.
func (k OwnerKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText is the reverse of MarshalText.
func (k *OwnerKind) UnmarshalText(text []byte) error {
	for i := range ownerKinds {
		if ownerKinds[i].word == string(text) {
			*k = OwnerKind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown owner kind %q", text)
}

// Allocation is a device that the kubelet gave to a container.
type Allocation struct {
	// Device is the device in the kubelet's words.
	Device DeviceName
	// UUID is the GPU that this names, GPUInstance its MIG instance, empty for a whole
	// GPU. Both are empty until the name was looked up among the driver's devices.
	UUID        string
	GPUInstance string
	// Owner has no UID as long as that is not known, and no part where several containers
	// of the pod share a claim.
	Owner Owner
	// Resource is the extended resource, such as nvidia.com/gpu; Claim the
	// resource claim of a device allocated by DRA.
	Resource string
	Claim    string
	Sharing  Sharing
	// Replicas counts the time-slicing or MPS replicas held; 1 for a whole GPU.
	Replicas int
	// Live is set while the owner's group is known to be alive.
	Live bool
}

// DeviceName names a GPU or a partition of one in one of the ways in which device plugins
// and DRA drivers do.
type DeviceName struct {
	// UUID is that of a GPU or of a partition's device, such as GPU-… or MIG-…. Without one
	// the GPU has another name: Index is the driver's order, Node the path of its device node
	// below /dev, PCIBusID its address as the driver prints it.
	UUID     string
	Index    *int
	Node     string
	PCIBusID string
	// MIG names a partition of that GPU, nil for the GPU itself.
	MIG *PartitionName
}

// PartitionName names a partition of a GPU, in one of three ways.
type PartitionName struct {
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
