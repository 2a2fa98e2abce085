package nvml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A migDevice is one compute instance in a GPU instance.
type migDevice struct {
	handle   device // valid for only one reading, because the driver may reuse the handle for another device
	index    int    // index in the GPU's list of MIG devices
	uuid     string
	name     string
	instance string // id of the GPU instance
}

// same reports whether two readings of a MIG index returned the same device. Comparing the UUID is not enough. The
// driver derives the UUID from the ids of the instances (NVIDIA open-gpu-kernel-modules, gpu_uuid.c), and reuses these
// ids for instances with other profiles.
func (p migDevice) same(q migDevice) bool {
	return p.index == q.index && p.uuid == q.uuid && p.name == q.name
}

// readMIG runs at each reading, because the partitioning may change at any time. After an error it keeps the old
// partitioning. If the partitioning has not changed, it makes two calls for the GPU and three calls for each MIG
// device.
func (g *gpuReader) readMIG(q *inquiry) error {
	mode, err := query(q, "nvmlDeviceGetMigMode", func() (int, ret) {
		current, _, r := g.handle.GetMigMode()
		return current, r
	})
	if unsupported(err) || err == nil && mode != gonvml.DEVICE_MIG_ENABLE {
		g.device.Partitions, g.devices = nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	devices, err := g.listDevices(q)
	if err != nil {
		return err
	}
	if g.divided && slices.EqualFunc(devices, g.devices, migDevice.same) {
		for i := range devices {
			g.devices[i].handle = devices[i].handle
		}
		return nil
	}
	return g.divide(q, devices)
}

// maxDevices is higher than the number of MIG devices on any GPU. Without this limit, reading the
// devices could take hours if the driver returned a garbage number.
const maxDevices = 64

// The indices of MIG devices may have gaps.
func (g *gpuReader) listDevices(q *inquiry) (devices []migDevice, err error) {
	n, err := query(q, "nvmlDeviceGetMaxMigDeviceCount", g.handle.GetMaxMigDeviceCount)
	if err != nil {
		return nil, err
	}
	if n > maxDevices {
		return nil, fmt.Errorf("nvmlDeviceGetMaxMigDeviceCount: invalid count %d", n)
	}
	for i := range n {
		handle, err := query(q, "nvmlDeviceGetMigDeviceHandleByIndex", func() (device, ret) { return g.handle.GetMigDeviceHandleByIndex(i) })
		if hasCode(err, gonvml.ERROR_NOT_FOUND, gonvml.ERROR_INVALID_ARGUMENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := migDevice{handle: handle, index: i}
		if p.uuid, err = query(q, "nvmlDeviceGetUUID", handle.GetUUID); err != nil {
			return nil, err
		}
		if p.name, err = query(q, "nvmlDeviceGetName", handle.GetName); err != nil {
			return nil, err
		}
		devices = append(devices, p)
	}
	return devices, nil
}

// divide fails if it cannot read all GPU instances, because the slices of a missing instance would count as free.
func (g *gpuReader) divide(q *inquiry, devices []migDevice) error {
	total, err := g.slices(q)
	if err != nil {
		return err
	}
	m := &gpu.Partitioning{Slices: total}
	for k := range devices {
		p := &devices[k]
		id, err := query(q, "nvmlDeviceGetGpuInstanceId", p.handle.GetGpuInstanceId)
		if err != nil {
			return err
		}
		p.instance = strconv.Itoa(id)
		i := slices.IndexFunc(m.Instances, func(i gpu.Partition) bool { return i.ID == p.instance })
		if i < 0 {
			instance, err := g.instance(q, p, id)
			if err != nil {
				return err
			}
			i, m.Instances = len(m.Instances), append(m.Instances, instance)
		}
		m.Instances[i].Devices = append(m.Instances[i].Devices, gpu.PartitionDevice{UUID: p.uuid, Index: p.index})
	}
	g.device.Partitions, g.devices, g.divided = m, devices, !q.retryable
	return nil
}

// slices returns the number of slices in the GPU's largest instance profile, which covers the whole GPU. It returns 0
// if the driver does not permit reading this number.
func (g *gpuReader) slices(q *inquiry) (most int, err error) {
	for profile := range gonvml.GPU_INSTANCE_PROFILE_COUNT {
		info, err := query(q, "nvmlDeviceGetGpuInstanceProfileInfo", func() (gonvml.GpuInstanceProfileInfo, ret) {
			return g.handle.GetGpuInstanceProfileInfo(profile)
		})
		switch {
		case err == nil:
			most = max(most, int(info.SliceCount))
		case !unsupported(err):
			return 0, err
		}
	}
	return most, nil
}

// Reading the profile number and the placement of an instance requires privileges.
func (g *gpuReader) instance(q *inquiry, p *migDevice, id int) (gpu.Partition, error) {
	a, err := query(q, "nvmlDeviceGetAttributes", p.handle.GetAttributes)
	if err != nil {
		return gpu.Partition{}, err
	}
	i := gpu.Partition{ID: p.instance, Profile: profile(p.name), ProfileID: -1, Start: -1, Slices: int(a.GpuInstanceSliceCount)}
	handle, err := query(q, "nvmlDeviceGetGpuInstanceById", func() (gonvml.GpuInstance, ret) { return g.handle.GetGpuInstanceById(id) })
	if err != nil {
		return i, nil
	}
	if info, err := query(q, "nvmlGpuInstanceGetInfo", handle.GetInfo); err == nil {
		i.ProfileID, i.Start = int(info.ProfileId), int(info.Placement.Start)
	}
	return i, nil
}

// profile returns the part of a MIG device's name that is the GPU instance's profile: "3g.40gb" in "NVIDIA H100 80GB
// HBM3 MIG 1c.3g.40gb". If a compute instance is smaller than its GPU instance, its own number of slices ("1c.")
// precedes the profile.
func profile(name string) string {
	_, name, _ = strings.Cut(name, "MIG ")
	compute, whole, ok := strings.Cut(name, "c.")
	if ok && strings.Trim(compute, "0123456789") == "" {
		return whole
	}
	return name
}
