package sampler

import (
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// devices contains the GPUs that the driver lists, and resolves the device names of the kubelet.
type devices []gpu.Device

// lookUp adds the GPU and the MIG instance to each allocation. If the driver does not list the device, the UUID
// normally stays empty. But if the device name is the UUID of a GPU, lookUp uses it, because the GPU may be lost.
func (ds devices) lookUp(list []gpu.Allocation) []gpu.Allocation {
	out, at := make([]gpu.Allocation, 0, len(list)), make(map[holdingKey]int, len(list))
	for _, a := range ds.expand(list) {
		a.UUID, a.GPUInstance = ds.find(a.Device)
		if a.GPUInstance != "" && a.Sharing == gpu.SharingExclusive {
			a.Sharing = gpu.SharingMIG // the device name was the PCI address of a divided GPU
		}
		h := holdingKey{a.UUID, a.GPUInstance, a.Owner}
		if i, twice := at[h]; twice {
			out[i].Replicas = max(out[i].Replicas, a.Replicas)
			continue
		}
		at[h] = len(out)
		out = append(out, a)
	}
	return out
}

// expand replaces an allocation of all GPUs by one allocation per GPU.
func (ds devices) expand(list []gpu.Allocation) []gpu.Allocation {
	if !slices.ContainsFunc(list, func(a gpu.Allocation) bool { return a.Device.All }) {
		return list
	}
	var out []gpu.Allocation
	for _, a := range list {
		if !a.Device.All {
			out = append(out, a)
			continue
		}
		for _, d := range ds {
			a.Device = gpu.DeviceName{UUID: d.UUID}
			out = append(out, a)
		}
	}
	return out
}

// holdingKey identifies an allocation. Two claims of an owner on one device count as one allocation.
type holdingKey struct {
	uuid, instance string
	owner          gpu.Owner
}

// find returns empty strings if there is no such device.
func (ds devices) find(name gpu.DeviceName) (uuid, instance string) {
	if strings.HasPrefix(name.UUID, "MIG-") {
		return ds.findInstance(func(i gpu.Partition) bool {
			return slices.ContainsFunc(i.Devices, func(d gpu.PartitionDevice) bool { return d.UUID == name.UUID })
		})
	}
	if name.Partition == nil || name.Partition.Device != "" {
		if uuid, instance = ds.findInstance(owned(name)); uuid != "" {
			return uuid, instance
		}
	}
	if name.UUID != "" && name.Partition == nil {
		return name.UUID, ""
	}
	if name.Position != nil {
		return ds.at(*name.Position)
	}
	i := slices.IndexFunc(ds, func(d gpu.Device) bool { return d.Named(name) })
	if i < 0 {
		return "", ""
	}
	if name.Partition == nil {
		return ds[i].UUID, ""
	}
	return ds[i : i+1].findInstance(meant(name.Partition))
}

// at resolves a position as defined by [gpu.Device.Position].
func (ds devices) at(position int) (uuid, instance string) {
	for _, d := range ds {
		if d.Position == nil {
			continue
		}
		switch k := position - *d.Position; {
		case d.Partitions == nil && k == 0:
			return d.UUID, ""
		case d.Partitions != nil && k >= 0 && k < len(d.Partitions.Instances):
			return d.UUID, d.Partitions.Instances[k].ID
		}
	}
	return "", ""
}

// owned returns a function that reports whether a partition contains the named device. The PCI address of a partitioned
// GPU refers to its first partition.
func owned(name gpu.DeviceName) func(gpu.Partition) bool {
	return func(i gpu.Partition) bool {
		return slices.ContainsFunc(i.Devices, func(d gpu.PartitionDevice) bool {
			switch {
			case name.Partition != nil:
				return d.UUID == name.Partition.Device
			case name.Node != "":
				return d.Node == name.Node
			case name.PCIBusID != "" && d.UUID != "":
				return strings.HasSuffix(name.PCIBusID, strings.ToUpper(d.UUID))
			}
			return false
		})
	}
}

func (ds devices) findInstance(meant func(gpu.Partition) bool) (uuid, instance string) {
	for _, d := range ds {
		if d.Partitions == nil {
			continue
		}
		if i := slices.IndexFunc(d.Partitions.Instances, meant); i >= 0 {
			return d.UUID, d.Partitions.Instances[i].ID
		}
	}
	return "", ""
}

func meant(name *gpu.PartitionName) func(gpu.Partition) bool {
	switch {
	case name.Ordinal != nil:
		return func(i gpu.Partition) bool {
			return slices.ContainsFunc(i.Devices, func(d gpu.PartitionDevice) bool { return d.Index == *name.Ordinal })
		}
	case name.Instance != "":
		return func(i gpu.Partition) bool { return i.ID == name.Instance }
	}
	return func(i gpu.Partition) bool {
		return name.ProfileID != nil && name.Start != nil && i.ProfileID == *name.ProfileID && i.Start == *name.Start
	}
}
