package simnode

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// MIG is how a GPU in MIG mode is divided.
type MIG struct {
	Slices    int // of the whole GPU
	Instances []Instance
}

// Instance is a GPU instance with one compute instance that fills it. Its id may
// be another's at another time.
type Instance struct {
	ID      int    // the driver's number of the GPU instance
	Profile string // such as 3g.40gb
	// ProfileID is the driver's number of the profile.
	ProfileID int
	Slices    int // of the GPU's
	// Start and Size are its placement, in memory slices.
	Start, Size int
	Memory      int // MiB
	Span
}

// Device is something that can be given to a container: a GPU, one replica of a
// GPU that is shared, or one instance of a GPU in MIG mode.
type Device struct {
	GPU int // position in the scenario's GPUs
	// Part is the replica, or the position in the GPU's instances.
	Part int
}

// Claim is a resource claim that DRA has satisfied.
type Claim struct {
	Namespace, Name string
	Devices         []Device
	// Admin is a claim with admin access. It may look at devices that are others',
	// and bears nothing of them; the kubelet shows it like any other.
	Admin bool
}

// GPUs are whole GPUs.
func GPUs(positions ...int) []Device {
	var out []Device
	for _, g := range positions {
		out = append(out, Device{GPU: g})
	}
	return out
}

// Parts are replicas, or instances, of one GPU.
func Parts(position int, parts ...int) []Device {
	var out []Device
	for _, p := range parts {
		out = append(out, Device{GPU: position, Part: p})
	}
	return out
}

// partCount returns how many devices a GPU can be given out as over time.
func (g *GPU) partCount() int {
	if g.MIG != nil {
		return len(g.MIG.Instances)
	}
	return max(g.Replicas, 1)
}

// offered lists the parts that a GPU is given out as at a time.
func (g *GPU) offered(t time.Duration) []int {
	var out []int
	for p := range g.partCount() {
		if g.MIG == nil || g.MIG.Instances[p].covers(t) {
			out = append(out, p)
		}
	}
	return out
}

// instance returns the position of the instance that a part is, 0 where the GPU
// is not divided.
func (g *GPU) instance(part int) int {
	if g.MIG == nil {
		return 0
	}
	return part
}

// resource is the extended resource under which NVIDIA's device plugin offers a
// part: with the mixed strategy for MIG, and sharing renamed by default.
func (g *GPU) resource(part int) string {
	switch {
	case g.MIG != nil:
		return "nvidia.com/mig-" + g.MIG.Instances[part].Profile
	case g.Replicas > 0:
		return "nvidia.com/gpu.shared"
	default:
		return "nvidia.com/gpu"
	}
}

// deviceID is the device plugin's id of a part.
func (g *GPU) deviceID(part int) string {
	switch {
	case g.MIG != nil:
		return g.migUUID(part)
	case g.Replicas > 0:
		return g.UUID + "::" + strconv.Itoa(part)
	default:
		return g.UUID
	}
}

// nodeID is the id of a part by Google's device plugin on GKE, which names device nodes and
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

// draName is the name of a part in the pool of NVIDIA's DRA driver, which counts
// GPUs by their minor numbers.
func (g *GPU) draName(minor, part int) string {
	name := "gpu-" + strconv.Itoa(minor)
	if g.MIG == nil {
		return name
	}
	i := g.MIG.Instances[part]
	return fmt.Sprintf("%s-mig-%s-%d-%d", name, strings.ReplaceAll(i.Profile, ".", ""), i.ProfileID, i.Start)
}

// migUUID is the UUID of an instance's MIG device.
func (g *GPU) migUUID(part int) string {
	i := g.MIG.Instances[part]
	return "MIG-" + uuid(g.UUID, strconv.Itoa(i.ID), i.Profile, i.From.String())
}
