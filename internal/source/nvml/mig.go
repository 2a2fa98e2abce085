package nvml

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A part is a MIG device, which is one compute instance of a GPU instance.
type part struct {
	handle   device // good for one reading: the driver may use it again for another
	index    int    // the driver's, of MIG devices on their GPU
	uuid     string
	name     string
	instance string // the GPU instance's id
}

// same reports whether two looks at a MIG index saw one device. A UUID alone does
// not tell: the driver makes it of the ids of the instances (NVIDIA
// open-gpu-kernel-modules, gpu_uuid.c), and an id may soon be another profile's.
func (p part) same(q part) bool { return p.index == q.index && p.uuid == q.uuid && p.name == q.name }

// readMIG brings up to date how the GPU is divided, which may change at any time.
// Its error says that this is not known now: what was known stays. While nothing
// changes it costs, beside two calls for the GPU, three for every MIG device.
func (b *board) readMIG(q *inquiry) error {
	mode, err := query(q, "nvmlDeviceGetMigMode", func() (int, ret) {
		current, _, r := b.handle.GetMigMode()
		return current, r
	})
	if unsupported(err) || err == nil && mode != gonvml.DEVICE_MIG_ENABLE {
		b.device.MIG, b.parts = nil, nil
		return nil
	}
	if err != nil {
		return err
	}
	parts, err := b.listParts(q)
	if err != nil {
		return err
	}
	if b.divided && slices.EqualFunc(parts, b.parts, part.same) {
		for i := range parts {
			b.parts[i].handle = parts[i].handle
		}
		return nil
	}
	return b.divide(q, parts)
}

// maxParts is more MIG devices than any GPU has. To ask for each of a number that is
// garbage would take hours.
const maxParts = 64

// listParts returns the MIG devices in the order of their indices, which may have
// holes.
func (b *board) listParts(q *inquiry) (parts []part, err error) {
	n, err := query(q, "nvmlDeviceGetMaxMigDeviceCount", b.handle.GetMaxMigDeviceCount)
	if err != nil {
		return nil, err
	}
	if n > maxParts {
		return nil, fmt.Errorf("nvmlDeviceGetMaxMigDeviceCount: invalid count %d", n)
	}
	for i := range n {
		handle, err := query(q, "nvmlDeviceGetMigDeviceHandleByIndex", func() (device, ret) { return b.handle.GetMigDeviceHandleByIndex(i) })
		if is(err, gonvml.ERROR_NOT_FOUND, gonvml.ERROR_INVALID_ARGUMENT) {
			continue
		}
		if err != nil {
			return nil, err
		}
		p := part{handle: handle, index: i}
		if p.uuid, err = query(q, "nvmlDeviceGetUUID", handle.GetUUID); err != nil {
			return nil, err
		}
		if p.name, err = query(q, "nvmlDeviceGetName", handle.GetName); err != nil {
			return nil, err
		}
		parts = append(parts, p)
	}
	return parts, nil
}

// divide reads the GPU instances of MIG devices that are new. All of them are
// taken or none: with one missing, its slices would look free.
func (b *board) divide(q *inquiry, parts []part) error {
	total, err := b.slices(q)
	if err != nil {
		return err
	}
	m := &gpu.Partitioning{Slices: total}
	for k := range parts {
		p := &parts[k]
		id, err := query(q, "nvmlDeviceGetGpuInstanceId", p.handle.GetGpuInstanceId)
		if err != nil {
			return err
		}
		p.instance = strconv.Itoa(id)
		i := slices.IndexFunc(m.Instances, func(i gpu.Partition) bool { return i.ID == p.instance })
		if i < 0 {
			instance, err := b.instance(q, p, id)
			if err != nil {
				return err
			}
			i, m.Instances = len(m.Instances), append(m.Instances, instance)
		}
		m.Instances[i].Devices = append(m.Instances[i].Devices, gpu.PartitionDevice{UUID: p.uuid, Index: p.index})
	}
	b.device.MIG, b.parts, b.divided = m, parts, !q.retryable
	return nil
}

// slices returns the number of slices of the largest GPU instance that the GPU
// offers, which is all of it; 0 if it may not be told.
func (b *board) slices(q *inquiry) (most int, err error) {
	for profile := range gonvml.GPU_INSTANCE_PROFILE_COUNT {
		info, err := query(q, "nvmlDeviceGetGpuInstanceProfileInfo", func() (gonvml.GpuInstanceProfileInfo, ret) {
			return b.handle.GetGpuInstanceProfileInfo(profile)
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

// instance reads the GPU instance of a MIG device. Its profile's number and its
// place are for privileged callers only.
func (b *board) instance(q *inquiry, p *part, id int) (gpu.Partition, error) {
	a, err := query(q, "nvmlDeviceGetAttributes", p.handle.GetAttributes)
	if err != nil {
		return gpu.Partition{}, err
	}
	i := gpu.Partition{ID: p.instance, Profile: profile(p.name), ProfileID: -1, Start: -1, Slices: int(a.GpuInstanceSliceCount)}
	handle, err := query(q, "nvmlDeviceGetGpuInstanceById", func() (gonvml.GpuInstance, ret) { return b.handle.GetGpuInstanceById(id) })
	if err != nil {
		return i, nil
	}
	if info, err := query(q, "nvmlGpuInstanceGetInfo", handle.GetInfo); err == nil {
		i.ProfileID, i.Start = int(info.ProfileId), int(info.Placement.Start)
	}
	return i, nil
}

// profile returns the profile of the GPU instance in the name of a MIG device,
// such as NVIDIA H100 80GB HBM3 MIG 1c.3g.40gb: a compute instance that is not the
// whole of its GPU instance has its own slices in front.
func profile(name string) string {
	_, name, _ = strings.Cut(name, "MIG ")
	compute, whole, ok := strings.Cut(name, "c.")
	if ok && strings.Trim(compute, "0123456789") == "" {
		return whole
	}
	return name
}
