package dcgm

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type instances struct {
	divided map[entity]bool // GPUs in MIG mode, according to the driver
	list    []instance
	watch   *watch // watch for the activity of the instances, or nil if activity is not measured
}

// The engine and the driver number GPU instances differently; id is the driver's number.
type instance struct {
	entity    entity
	gpu       entity
	id        string
	profile   string // profile name from the driver; may be empty
	profileID uint32
	slices    uint32
	// read is the boot-clock time at which the engine last read the instance's activity; 0 before the first time.
	read time.Duration
}

// The id does not identify an instance, because ids are reused.
func (i instance) same(o instance) bool {
	i.profile, i.read = o.profile, o.read
	return i == o
}

// If the engine cannot list the instances, listInstances keeps the old list.
func (d *session) listInstances(devices []gpu.Device) error {
	if !d.cfg.Profiling && len(d.cfg.Fields) == 0 {
		return nil
	}
	divided := make(map[entity]bool)
	for _, g := range d.gpus {
		dev := device(devices, d.uuids[g])
		if dev == nil && d.instances.divided[g] || dev != nil && dev.Partitions != nil {
			divided[g] = true
		}
	}
	var list []instance
	if len(divided) > 0 {
		var err error
		if list, err = d.hierarchy(devices); err != nil {
			return err
		}
	}
	for i := range list {
		if k := slices.IndexFunc(d.instances.list, list[i].same); k >= 0 {
			old := &d.instances.list[k]
			list[i].read, list[i].profile = old.read, cmp.Or(list[i].profile, old.profile)
		}
	}
	unchanged := slices.EqualFunc(list, d.instances.list, instance.same) && maps.Equal(divided, d.instances.divided)
	d.instances.list, d.instances.divided = list, divided
	if !unchanged {
		d.watchInstances()
		d.watchPage()
	}
	return nil
}

func device(devices []gpu.Device, uuid string) *gpu.Device {
	i := slices.IndexFunc(devices, func(d gpu.Device) bool { return d.UUID == uuid })
	if i < 0 {
		return nil
	}
	return &devices[i]
}

// hierarchy returns the engine's GPU instances with the driver's profile names.
func (d *session) hierarchy(devices []gpu.Device) (list []instance, err error) {
	err = d.engine.do("dcgmGetGpuInstanceHierarchy", func() error {
		h, err := godcgm.GetGPUInstanceHierarchy()
		for _, e := range h.EntityList[:h.Count] {
			if e.Entity.EntityGroupId != godcgm.FE_GPU_I || !slices.Contains(d.gpus, e.Parent) {
				continue
			}
			i := instance{
				entity: e.Entity, gpu: e.Parent, id: strconv.FormatUint(uint64(e.Info.NvmlInstanceId), 10),
				profileID: uint32(e.Info.NvmlMigProfileId), slices: uint32(e.Info.NvmlProfileSlices),
			}
			if dev := device(devices, d.uuids[e.Parent]); dev != nil && dev.Partitions != nil {
				for _, known := range dev.Partitions.Instances {
					if known.ID == i.id {
						i.profile = known.Profile
					}
				}
			}
			list = append(list, i)
		}
		return err
	})
	return list, err
}

func entities(list []instance) (out []entity) {
	for _, i := range list {
		out = append(out, i.entity)
	}
	return out
}

// activity is the DCGM field for the share of time in which the multiprocessors had a resident warp. The driver's GPM
// has a metric with the same meaning. It is assumed, but not verified on hardware, that the value for an instance is
// relative to the instance and not to the GPU.
const activity = godcgm.DCGM_FI_PROF_SM_UTIL_RATIO

func (d *session) watchInstances() {
	if !d.cfg.Profiling {
		return
	}
	w := &watch{name: activityWatch, of: entities(d.instances.list), fields: []field{activity}, every: d.cfg.Tick, keep: retention(d.cfg.Tick)}
	var err error
	d.instances.watch, err = d.replace(d.instances.watch, w)
	d.note(activityWatch, err)
}

// readActivity returns the activity of MIG instances since the last reading, by UUID of the GPU.
func (d *session) readActivity() (map[string][]gpu.InstanceSample, error) {
	if d.instances.watch == nil {
		return nil, nil
	}
	vs, err := d.latest(entities(d.instances.list), []field{activity})
	if err != nil {
		return nil, err
	}
	out := make(map[string][]gpu.InstanceSample)
	for g := range d.instances.divided {
		var list []*instance
		for k := range d.instances.list {
			if i := &d.instances.list[k]; i.gpu == g {
				list = append(list, i)
			}
		}
		if samples := busy(list, vs, d.moments, d.cfg.Now(), retention(d.cfg.Tick)); len(samples) > 0 {
			out[d.uuids[g]] = samples
		}
	}
	return out, nil
}

// busy returns nothing unless the engine has measured all instances since the last reading. The engine measures the
// activity between two of its updates. busy uses the newest value for the whole time since the last reading, unless
// this time exceeds longest.
func busy(list []*instance, vs values, m moments, now gpu.Instant, longest time.Duration) (out []gpu.InstanceSample) {
	at := func(i *instance) time.Duration {
		k := key{i.entity, activity}
		return m.readAt(k, vs[k], now).Boot
	}
	if slices.ContainsFunc(list, func(i *instance) bool { return at(i)-i.read <= shortest }) {
		return nil
	}
	known := true
	for _, i := range list {
		span := gpu.Span{From: i.read, To: at(i)}
		ratio, ok := vs[key{i.entity, activity}].number()
		known = known && ok && ratio >= 0 && ratio <= 1.01 && span.From > 0 && span.Len() <= longest
		out = append(out, gpu.InstanceSample{Instance: i.id, Span: span, SM: min(ratio, 1)})
		i.read = span.To
		if !ok {
			i.read = 0
		}
	}
	if !known {
		return nil
	}
	return out
}
