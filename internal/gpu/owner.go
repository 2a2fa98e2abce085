package gpu

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// ProcessID identifies one process even if its PID is reused.
type ProcessID struct {
	PID uint32 `json:"pid"`
	// Start is field 22 of /proc/<pid>/stat, in raw clock ticks since boot.
	Start uint64 `json:"start"`
}

// Process describes a process that uses a GPU, with values from /proc. Many goroutines share one Process, so it must
// not be changed after it is published.
type Process struct {
	ID ProcessID
	// Name is the content of /proc/<pid>/comm, which is read once. It may contain any bytes.
	Name string
	// StartTime is the wall-clock time of ID.Start.
	StartTime time.Time
	Owner     Owner
	// ContainerID is the container id of the container runtime, with 64 hex digits. It is empty for a
	// process outside containers.
	ContainerID string
	// Unit is the job inside a pod to which the process belongs. Unit is zero for a process outside pods. For such
	// a process, the unit can be the owner itself.
	Unit Unit
}

// OwnedBy returns a copy of p with the owner o. If p already has this owner, it returns p itself.
func (p *Process) OwnedBy(o Owner) *Process {
	if p.Owner == o {
		return p
	}
	other := *p
	other.Owner = o
	return &other
}

// Owner identifies the owner of processes, allocations and accounts. Other packages compare owners with ==. The meaning
// of the fields depends on the kind of the owner:
//
//	            Scope      Name  UID           Part
//	OwnerPod    namespace  pod   pod UID       container
//	OwnerUnit   manager    unit  manager/unit  empty
//	the others  empty
//
// A pod that is deleted and created again with the same name has another UID and is another owner. A unit that starts
// again with the same name, such as a requeued job, is the same owner.
type Owner struct {
	Kind  OwnerKind `json:"kind"`
	Scope string    `json:"scope,omitempty"`
	Name  string    `json:"name,omitempty"`
	// UID is empty while the UID is unknown.
	UID string `json:"uid,omitempty"`
	// Part is empty if only the pod is known.
	Part string `json:"part,omitempty"`
}

// Group returns the owner without its part, for example the pod of a container.
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

// Unit identifies a consumer outside pods, such as a Slurm job or a Docker container.
type Unit struct {
	// Manager is the system that runs the unit, such as slurm, docker, systemd or user.
	Manager string `json:"manager"`
	// Name is the name that the manager uses for the unit, such as a job id, a container's name or a
	// uid.
	Name string `json:"name"`
}

// Owner returns the owner of the unit's processes.
func (u Unit) Owner() Owner {
	return Owner{Kind: OwnerUnit, Scope: u.Manager, Name: u.Name, UID: u.Manager + "/" + u.Name}
}

// Unit returns the unit that o identifies, or a zero Unit if o is not a unit.
func (o Owner) Unit() Unit {
	if o.Kind != OwnerUnit {
		return Unit{}
	}
	return Unit{o.Scope, o.Name}
}

// UnitInfo describes a unit. Unknown values are empty. It is not part of Owner, because a value may become known later
// than the owner.
type UnitInfo struct {
	SLUID     string // id of one run of a Slurm job; a requeued job gets another SLUID (Slurm 26.05 and newer)
	User      string
	UID       string // uid of the user, in decimal
	Account   string
	Partition string
	Cluster   string
	// JobName and ArrayElement (such as 2_4) come from a file that the user of the job can change.
	JobName, ArrayElement string
	ContainerID           string
	Image                 string
	Project               string // Docker Compose project
}

// OwnerKind is the kind of an owner.
type OwnerKind int

// The kinds of owners. OwnerPending is temporary: the owner of the process is not known yet.
const (
	OwnerPending  OwnerKind = iota
	OwnerPod                // a container in a pod
	OwnerUnit               // a unit outside pods: a job, container, service or user
	OwnerHost               // the host: a process outside all pods and units
	OwnerUnmapped           // an unknown owner: either the process ended early, or the name of its container is unknown
	numOwnerKinds
)

var ownerKinds = [numOwnerKinds]struct {
	name string
	// reason is the reason why the energy of these owners is unattributed. It is NumReasons if these owners have
	// accounts.
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

// Unattributed returns the reason why the energy of owners of this kind is unattributed. It returns false if these
// owners have accounts.
func (k OwnerKind) Unattributed() (Reason, bool) {
	r := ownerKinds[k].reason
	return r, r != NumReasons
}

// HasAccount reports whether the energy of owners of this kind is charged to accounts.
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

// ownerKindTexts contains the names as bytes, because the exporter writes the kinds of all accounts
// every second.
var ownerKindTexts = func() (texts [numOwnerKinds][]byte) {
	for k := range ownerKinds {
		texts[k] = []byte(ownerKinds[k].name)
	}
	return texts
}()

// MarshalText returns the name of the kind. The caller must not change the result.
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

// Allocation describes a device that the kubelet allocated to a container.
type Allocation struct {
	// Device is the device name that the kubelet uses.
	Device DeviceName `json:",omitzero"`
	// UUID is the GPU that Device names. GPUInstance is the MIG instance, or empty for a whole GPU.
	// Both are empty until the driver's device for this name is found.
	UUID        string `json:",omitempty"`
	GPUInstance string `json:",omitempty"`
	// Owner is the owner that holds the device. The owner's UID is empty while it is unknown. The
	// owner's part is empty if several containers of the pod share a claim.
	Owner Owner `json:",omitzero"`
	// Resource is the extended resource, such as nvidia.com/gpu. Claim is the resource claim if DRA
	// allocated the device.
	Resource string  `json:",omitempty"`
	Claim    string  `json:",omitempty"`
	Sharing  Sharing `json:",omitempty"`
	// Replicas is the number of held time-slicing or MPS replicas; 1 for a whole GPU.
	Replicas int `json:",omitempty"`
	// Live is set while the owner's pod or unit is known to exist.
	Live bool `json:",omitempty"`
	// Declared is set if the owner was read from a file. Otherwise the program that allocates devices reported the
	// owner. If the file names an owner that is not alive, the UID of Owner is empty.
	Declared bool `json:",omitempty"`
	// Reserved is set if the owner does not hold the device, but only reserves it for other pods. These
	// other pods are unknown.
	Reserved bool `json:",omitempty"`
}

// DeviceName is the name of a GPU or a partition, in one of the forms that device plugins and DRA
// drivers use.
type DeviceName struct {
	// UUID is the UUID of a GPU or of a partition's device, such as GPU-… or MIG-…. If UUID is empty,
	// one of the other fields names the GPU. Index is the GPU's number in the driver's order. Node is
	// the path of the device node below /dev. PCIBusID is the address in the driver's format. If Node
	// or PCIBusID belongs to a partition, the name refers to the partition. Position is either a
	// [Device.Position] or the position of a partition.
	UUID     string `json:",omitempty"`
	Index    *int   `json:",omitempty"`
	Position *int   `json:",omitempty"`
	Node     string `json:",omitempty"`
	PCIBusID string `json:",omitempty"`
	// Partition names a partition of the GPU. It is nil if the name refers to the whole GPU.
	Partition *PartitionName `json:",omitempty"`
	// All is set if the name refers to every GPU that is present.
	All bool `json:",omitempty"`
}

// PartitionName names a GPU's partition in one of four forms.
type PartitionName struct {
	Device           string // name of the partition's device; no other GPU of the node has a partition with this name
	Ordinal          *int   // driver's index of the partition
	Instance         string // GPU instance id of the partition
	ProfileID, Start *int   // number of the partition's profile, and its first memory slice
}

// Sharing describes how a container shares a GPU.
type Sharing string

// The ways in which a container can hold or use a GPU.
const (
	SharingExclusive   Sharing = "exclusive"
	SharingTimeSlicing Sharing = "time-slicing" // time-slicing or MPS, which the kubelet does not distinguish
	SharingMIG         Sharing = "mig"
	SharingNone        Sharing = "none" // used without an allocation
	SharingUnknown     Sharing = ""     // used, but it is unknown whether an allocation exists
)

// Allocations contains the latest list of allocated devices and the state of this list.
type Allocations struct {
	// Known is false while the kubelet's response is missing or stale. On a node without a kubelet,
	// Known is true.
	Known bool
	// Optional is set on a machine where processes may use GPUs without allocations.
	Optional bool
	// Requested is the boot-clock time at which the list was requested. The list contains all
	// allocations of containers that existed at this time.
	Requested time.Duration
	// While Known is false, List contains only the allocations of units.
	List []Allocation
	// Alive contains the UIDs of existing pods and units while Known is false. It is nil before they were read for the
	// first time.
	Alive map[string]bool
}
