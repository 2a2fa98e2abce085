package gpu

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// ProcessID identifies one process permanently. PIDs are reused.
type ProcessID struct {
	PID uint32 `json:"pid"`
	// Start is field 22 of /proc/<pid>/stat, in raw clock ticks since boot.
	Start uint64 `json:"start"`
}

// Process is a process that uses a GPU, with the values from /proc. Many readers share one Process,
// so it is immutable after it is published.
type Process struct {
	ID ProcessID
	// Name is /proc/<pid>/comm, read once; it may hold any bytes.
	Name string
	// StartTime is ID.Start on the wall clock.
	StartTime time.Time
	Owner     Owner
	// ContainerID is the container runtime's id, 64 hex digits; empty outside containers.
	ContainerID string
	// Unit is the job inside a pod that the process belongs to. It is zero for processes outside
	// pods, where a unit is the owner.
	Unit Unit
}

// OwnedBy returns the process with the owner o. It returns p itself if o already is its owner.
func (p *Process) OwnedBy(o Owner) *Process {
	if p.Owner == o {
		return p
	}
	other := *p
	other.Owner = o
	return &other
}

// Owner owns processes, allocations and accounts. It is a value: other packages compare owners
// and read no field except the kind. The meaning of the fields depends on the kind:
//
//	            Scope      Name  UID           Part
//	OwnerPod    namespace  pod   pod UID       container
//	OwnerUnit   manager    unit  manager/unit  empty
//	the others  empty
//
// A pod that is deleted and created again with the same name has another UID and is another owner.
// A unit that starts again under its name, such as a requeued job, is the same owner.
type Owner struct {
	Kind  OwnerKind `json:"kind"`
	Scope string    `json:"scope,omitempty"`
	Name  string    `json:"name,omitempty"`
	// UID is empty while it is unknown.
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
	switch {
	case o.Kind != p.Kind:
		return cmp.Compare(o.Kind, p.Kind)
	case o.Scope != p.Scope:
		return strings.Compare(o.Scope, p.Scope)
	case o.Name != p.Name:
		return strings.Compare(o.Name, p.Name)
	case o.UID != p.UID:
		return strings.Compare(o.UID, p.UID)
	}
	return strings.Compare(o.Part, p.Part)
}

// Unit names a consumer outside pods, such as a Slurm job or a Docker container.
type Unit struct {
	// Manager is the system that runs it, such as slurm, docker, systemd or user.
	Manager string `json:"manager"`
	// Name is the manager's name for it, such as a job id, a container's name or a uid.
	Name string `json:"name"`
}

// Owner returns the owner of the unit's processes.
func (u Unit) Owner() Owner {
	return Owner{Kind: OwnerUnit, Scope: u.Manager, Name: u.Name, UID: u.Manager + "/" + u.Name}
}

// Unit returns the unit, which is zero for other kinds of owners.
func (o Owner) Unit() Unit {
	if o.Kind != OwnerUnit {
		return Unit{}
	}
	return Unit{o.Scope, o.Name}
}

// UnitInfo describes a unit. Unknown values are empty. Values may become known late, so they are
// not part of the owner.
type UnitInfo struct {
	SLUID     string // id of this run of a Slurm job, from Slurm 26.05 on
	User      string
	UID       string // in decimal
	Account   string
	Partition string
	Cluster   string
	// JobName and ArrayElement (such as 2_4) come from a file of the user of a job.
	JobName, ArrayElement string
	ContainerID           string
	Image                 string
	Project               string // of Docker Compose
}

// OwnerKind is the kind of an owner.
type OwnerKind int

// The kinds of owners. The zero value is temporary: the process was found, but its owner is not
// known yet.
const (
	OwnerPending  OwnerKind = iota
	OwnerPod                // a container of a pod
	OwnerUnit               // a unit outside pods: a job, container, service or user
	OwnerHost               // the host: a process outside all pods and units
	OwnerUnmapped           // unknown: a process that ended early, or whose container has no known name
	numOwnerKinds
)

// ownerKinds contains a row for each kind.
var ownerKinds = [numOwnerKinds]struct {
	name string
	// reason is the reason why energy of such an owner is charged to no account, or NumReasons if
	// the owner has an account.
	reason Reason
}{
	OwnerPending:  {"pending", Unmapped},
	OwnerPod:      {"pod", NumReasons},
	OwnerUnit:     {"unit", NumReasons},
	OwnerHost:     {"host", Host},
	OwnerUnmapped: {"unmapped", Unmapped},
}

// String returns the name of the kind in logs and in the state file.
func (k OwnerKind) String() string { return ownerKinds[k].name }

// Unattributed returns the reason why energy of such an owner is charged to no account. It
// returns false if the owner has an account.
func (k OwnerKind) Unattributed() (Reason, bool) {
	r := ownerKinds[k].reason
	return r, r != NumReasons
}

// HasAccount reports whether energy of such an owner is charged to an account.
func (k OwnerKind) HasAccount() bool {
	_, unattributed := k.Unattributed()
	return !unattributed
}

// AccountKinds returns the kinds of owners that have accounts.
func AccountKinds() (kinds []OwnerKind) {
	for k := range numOwnerKinds {
		if k.HasAccount() {
			kinds = append(kinds, k)
		}
	}
	return kinds
}

// ownerKindTexts contains the names as bytes, because each account is written every second.
var ownerKindTexts = func() (texts [numOwnerKinds][]byte) {
	for k := range ownerKinds {
		texts[k] = []byte(ownerKinds[k].name)
	}
	return texts
}()

// MarshalText returns the name of the kind. The caller must not change it.
func (k OwnerKind) MarshalText() ([]byte, error) { return ownerKindTexts[k], nil }

// UnmarshalText parses the name of a kind.
func (k *OwnerKind) UnmarshalText(text []byte) error {
	for i := range ownerKinds {
		if ownerKinds[i].name == string(text) {
			*k = OwnerKind(i)
			return nil
		}
	}
	return fmt.Errorf("unknown owner kind %q", text)
}

// Allocation is a device that the kubelet allocated to a container.
type Allocation struct {
	// Device is the device as the kubelet names it.
	Device DeviceName `json:",omitzero"`
	// UUID is the GPU that Device names. GPUInstance is its MIG instance, empty for a whole GPU.
	// Both are empty until the name is resolved to one of the driver's devices.
	UUID        string `json:",omitempty"`
	GPUInstance string `json:",omitempty"`
	// Owner has no UID while the UID is unknown, and no part if several containers of the pod
	// share a claim.
	Owner Owner `json:",omitzero"`
	// Resource is the extended resource, such as nvidia.com/gpu. Claim is the resource claim of a
	// device that was allocated by DRA.
	Resource string  `json:",omitempty"`
	Claim    string  `json:",omitempty"`
	Sharing  Sharing `json:",omitempty"`
	// Replicas counts the time-slicing or MPS replicas held; 1 for a whole GPU.
	Replicas int `json:",omitempty"`
	// Live is set while the owner's group is known to be alive.
	Live bool `json:",omitempty"`
	// Declared is set if a file names the owner, and not the program that allocates devices. The
	// owner has no UID if the file names no live owner.
	Declared bool `json:",omitempty"`
	// Reserved is set if the owner only reserves the device for other pods, which are unknown. Such
	// an allocation holds nothing.
	Reserved bool `json:",omitempty"`
}

// DeviceName names a GPU or a partition of one, in one of the forms that device plugins and DRA
// drivers use.
type DeviceName struct {
	// UUID is the UUID of a GPU or of a partition's device, such as GPU-… or MIG-…. If it is empty,
	// another field names the GPU: Index is the position in the driver's order, Node the path of
	// the device node below /dev, PCIBusID the address in the driver's format. If a node or an
	// address belongs to a partition, it names the partition. Position is a [Device.Position], also
	// of a partition.
	UUID     string `json:",omitempty"`
	Index    *int   `json:",omitempty"`
	Position *int   `json:",omitempty"`
	Node     string `json:",omitempty"`
	PCIBusID string `json:",omitempty"`
	// Partition names a partition of that GPU. It is nil for the GPU itself.
	Partition *PartitionName `json:",omitempty"`
	// All names every GPU that is present.
	All bool `json:",omitempty"`
}

// PartitionName names a partition of a GPU in one of four forms.
type PartitionName struct {
	Device           string // the name of its device; it is unique on the node, so the GPU is not named
	Ordinal          *int   // the driver's index of the partition
	Instance         string // its GPU instance id
	ProfileID, Start *int   // the number of its profile and its first memory slice
}

// Sharing is the way in which a container holds a GPU.
type Sharing string

// The ways a container can hold a GPU.
const (
	SharingExclusive   Sharing = "exclusive"
	SharingTimeSlicing Sharing = "time-slicing" // or MPS: the kubelet does not distinguish them
	SharingMIG         Sharing = "mig"
	SharingNone        Sharing = "none" // used without an allocation
	SharingUnknown     Sharing = ""     // used; allocation unknown
)

// Allocations is the latest list of allocated devices.
type Allocations struct {
	// Known is false while the kubelet's response is missing or stale. A node without a kubelet
	// is Known.
	Known bool
	// Optional is set on a machine where GPUs are used without allocations; use without an
	// allocation is normal there.
	Optional bool
	// Requested is the time (boot clock) at which the list was requested. It contains all allocations
	// of containers that existed by then.
	Requested time.Duration
	// List contains the allocations; while they are not known, only allocations of units.
	List []Allocation
	// Alive contains the UIDs of the groups that are alive while the list is not known; nil before the
	// first poll.
	Alive map[string]bool
}
