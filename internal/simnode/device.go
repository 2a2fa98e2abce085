package simnode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MIG describes how a GPU in MIG mode is partitioned.
type MIG struct {
	Slices    int // slices of the whole GPU
	Instances []Instance
}

// Instance is a GPU instance with one compute instance of the same size. After an instance is removed, a new instance
// can get its id.
type Instance struct {
	ID      int    // id of the GPU instance in the driver
	Profile string // such as 3g.40gb
	// ProfileID is the driver's id of the profile.
	ProfileID int
	Slices    int
	// Start is the first memory slice. Size is the number of memory slices.
	Start, Size int
	Memory      int // MiB
	Span
}

// Device is a GPU, a replica of a shared GPU, or an instance of a GPU in MIG mode. It can be allocated to a container.
type Device struct {
	GPU int // position in the scenario's list of GPUs
	// Part is the number of the replica, or the position of the instance.
	Part int
}

// Claim is a resource claim for which DRA has allocated devices.
type Claim struct {
	Namespace, Name string
	Devices         []Device
	// Admin is set for a claim with admin access. Such a claim permits a pod to monitor the devices of other owners,
	// and nothing is charged for it. The kubelet lists it like any other claim.
	Admin bool
}

// GPUs returns the devices for whole GPUs at the given positions.
func GPUs(positions ...int) []Device {
	var out []Device
	for _, g := range positions {
		out = append(out, Device{GPU: g})
	}
	return out
}

// Parts returns the devices for replicas or instances of the GPU at a position.
func Parts(position int, parts ...int) []Device {
	var out []Device
	for _, p := range parts {
		out = append(out, Device{GPU: position, Part: p})
	}
	return out
}

// partCount includes instances that exist only for some of the time.
func (g *GPU) partCount() int {
	if g.MIG != nil {
		return len(g.MIG.Instances)
	}
	return max(g.Replicas, 1)
}

// offered returns the parts of a GPU that the device plugin offers at the given time.
func (g *GPU) offered(t time.Duration) []int {
	var out []int
	for p := range g.partCount() {
		if g.MIG == nil || g.MIG.Instances[p].covers(t) {
			out = append(out, p)
		}
	}
	return out
}

// instance returns 0 if the GPU is not divided.
func (g *GPU) instance(part int) int {
	if g.MIG == nil {
		return 0
	}
	return part
}

// resource returns the extended resource under which the vendor's device plugin offers a part. The plugin uses the
// strategy mixed for MIG, and the default names for shared GPUs.
func (g *GPU) resource(part int) string {
	switch {
	case g.AMD != nil:
		return g.amdResource()
	case g.MIG != nil:
		return "nvidia.com/mig-" + g.MIG.Instances[part].Profile
	case g.Replicas > 0:
		return "nvidia.com/gpu.shared"
	default:
		return "nvidia.com/gpu"
	}
}

func (sc *Scenario) deviceID(d Device) string {
	g, part := &sc.GPUs[d.GPU], d.Part
	switch {
	case g.AMD != nil:
		return sc.drmDevices(d.GPU)[part].name
	case g.MIG != nil:
		return g.migUUID(part)
	case g.Replicas > 0:
		return g.UUID + "::" + strconv.Itoa(part)
	default:
		return g.UUID
	}
}

// nodeID returns the id of a part in Google's device plugin on GKE. The plugin names the parts after device nodes and
// offers all of them as nvidia.com/gpu.
func (g *GPU) nodeID(minor, part int) string {
	id := "nvidia" + strconv.Itoa(minor)
	switch {
	case g.MIG != nil:
		id += "/gi" + strconv.Itoa(g.MIG.Instances[part].ID)
	case g.Replicas > 0:
		id += "/vgpu" + strconv.Itoa(part)
	}
	return id
}

// draName returns the name of a part in the pool of NVIDIA's DRA driver. The driver identifies GPUs by their minor
// numbers.
func (g *GPU) draName(minor, part int) string {
	name := "gpu-" + strconv.Itoa(minor)
	if g.MIG == nil {
		return name
	}
	i := g.MIG.Instances[part]
	return fmt.Sprintf("%s-mig-%s-%d-%d", name, strings.ReplaceAll(i.Profile, ".", ""), i.ProfileID, i.Start)
}

func (g *GPU) migUUID(part int) string {
	i := g.MIG.Instances[part]
	return "MIG-" + uuid(g.UUID, strconv.Itoa(i.ID), i.Profile, i.From.String())
}
