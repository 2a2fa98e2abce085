package dcgm

import (
	"slices"
	"strconv"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// mig is how the GPUs in MIG mode are divided.
type mig struct {
	parts []part
	watch *watch // of how busy the instances are; nil if that is not measured
	asks  int    // how often what they are called may still be asked for
}

// A part is a GPU instance. The engine numbers its entities by itself; of the driver's
// numbers only those in instance are.
type part struct {
	entity   entity
	parent   entity // the GPU
	instance gpu.Instance
	// read is when the engine last read how busy it is, boot clock; 0 for never.
	read time.Duration
}

// same reports whether two looks saw one instance. Ids are soon another one's.
func (p part) same(q part) bool {
	return p.entity == q.entity && p.parent == q.parent && p.instance.ID == q.instance.ID &&
		p.instance.ProfileID == q.instance.ProfileID && p.instance.Slices == q.instance.Slices
}

// divide brings up to date how GPUs are divided, which may change at any time. What the
// engine does not say stays as it was known.
func (d *session) divide(vs values) error {
	divided := d.divided()
	for _, g := range d.gpus {
		if mode, ok := vs[key{g, godcgm.DCGM_FI_DEV_MIG_MODE}].integer(); ok {
			divided[g] = mode == 1
		}
	}
	if !slices.ContainsFunc(d.gpus, func(g entity) bool { return divided[g] }) {
		return d.regroup(nil, divided)
	}
	parts, err := d.hierarchy()
	if err != nil {
		return nil
	}
	return d.regroup(parts, divided)
}

// divided returns which GPUs are known to be in MIG mode.
func (d *session) divided() map[entity]bool {
	divided := make(map[entity]bool)
	for _, g := range d.gpus {
		divided[g] = d.boards[g].device.MIG != nil
	}
	return divided
}

// hierarchy lists the GPU instances.
func (d *session) hierarchy() (parts []part, err error) {
	err = d.engine.do("dcgmGetGpuInstanceHierarchy", func() error {
		h, err := godcgm.GetGPUInstanceHierarchy()
		for _, e := range h.EntityList[:h.Count] {
			if e.Entity.EntityGroupId != godcgm.FE_GPU_I || d.boards[e.Parent] == nil {
				continue
			}
			parts = append(parts, part{entity: e.Entity, parent: e.Parent, instance: gpu.Instance{
				ID:        strconv.FormatUint(uint64(e.Info.NvmlInstanceId), 10),
				ProfileID: int(int32(uint32(e.Info.NvmlMigProfileId))), Start: -1, Slices: int(e.Info.NvmlProfileSlices),
			}})
		}
		return err
	})
	return parts, err
}

// regroup takes over how the GPUs are divided now, if that changed.
func (d *session) regroup(parts []part, divided map[entity]bool) error {
	for i := range parts {
		k := slices.IndexFunc(d.mig.parts, func(old part) bool { return parts[i].same(old) })
		if k >= 0 {
			parts[i].read, parts[i].instance = d.mig.parts[k].read, d.mig.parts[k].instance
		}
	}
	unchanged := slices.EqualFunc(parts, d.mig.parts, part.same)
	d.mig.parts = parts
	for _, g := range d.gpus {
		if b := d.boards[g]; divided[g] != (b.device.MIG != nil) {
			unchanged = false
		}
	}
	if unchanged {
		return nil
	}
	d.mig.asks = maxAsks
	if err := d.describe(divided); err != nil {
		return err
	}
	d.watchInstances()
	d.watchPage()
	return nil
}

// describeAgain asks for names that could not be told, a few times.
func (d *session) describeAgain() error {
	if d.mig.asks == 0 || !slices.ContainsFunc(d.mig.parts, func(p part) bool { return p.instance.Profile == "" }) {
		return nil
	}
	d.mig.asks--
	return d.describe(d.divided())
}

// describe asks for the names of profiles, and for what a whole GPU has.
func (d *session) describe(divided map[entity]bool) error {
	names, err := d.engine.live(entities(d.mig.parts), godcgm.DCGM_FI_DEV_GPU_NAME)
	if err != nil {
		return err
	}
	slicesOf, err := d.engine.live(slices.DeleteFunc(slices.Clone(d.gpus), func(g entity) bool { return !divided[g] }), godcgm.DCGM_FI_DEV_MIG_MAX_SLICES)
	if err != nil {
		return err
	}
	for _, g := range d.gpus {
		d.boards[g].device.MIG = nil
		if divided[g] {
			m := new(gpu.MIG)
			n, ok := slicesOf[key{g, godcgm.DCGM_FI_DEV_MIG_MAX_SLICES}].count()
			assign(&m.Slices, func(n int64) int { return int(n) }, n, ok)
			d.boards[g].device.MIG = m
		}
	}
	for i := range d.mig.parts {
		p := &d.mig.parts[i]
		names[key{p.entity, godcgm.DCGM_FI_DEV_GPU_NAME}].setWord(&p.instance.Profile)
		if b := d.boards[p.parent]; b.device.MIG != nil {
			b.device.MIG.Instances = append(b.device.MIG.Instances, p.instance)
		}
	}
	return nil
}

func entities(parts []part) (of []entity) {
	for _, p := range parts {
		of = append(of, p.entity)
	}
	return of
}

// activity is the part of an instance's time in which its multiprocessors had a warp,
// as the library's GPM has it too. Whether it is in relation to the instance, as is
// assumed here, or to the GPU has not been seen on hardware.
const activity = godcgm.DCGM_FI_PROF_SM_UTIL_RATIO

// watchInstances has all instances there are measured, if that is wanted.
func (d *session) watchInstances() {
	if !d.cfg.Profiling {
		return
	}
	w := &watch{name: activityWatch, of: entities(d.mig.parts), fields: []field{activity}, every: d.cfg.Tick, keep: retention(d.cfg.Tick)}
	var err error
	d.mig.watch, err = d.replace(d.mig.watch, w)
	d.doWithout(activityWatch, err)
}

// measure adds to readings how busy each instance was since the last reading. Every
// instance of a GPU was measured or none counts.
func (d *session) measure(report *gpu.Report) {
	if d.mig.watch == nil {
		return
	}
	vs, err := d.latest(entities(d.mig.parts), []field{activity})
	if err != nil {
		return
	}
	for i := range report.Readings {
		r := &report.Readings[i]
		var parts []*part
		for k := range d.mig.parts {
			if p := &d.mig.parts[k]; d.boards[p.parent].device.UUID == r.UUID {
				parts = append(parts, p)
			}
		}
		r.Instances, r.InstancesKnown = busy(parts, vs, d.moments, d.cfg.Now(), retention(d.cfg.Tick))
	}
}

// busy returns how busy the instances of a GPU were, if the engine measured all of them
// since it was last asked. It measures over the time from one update to the next; the
// newest one is taken for all of them since, for the longest time at most.
func busy(parts []*part, vs values, m moments, now gpu.Instant, longest time.Duration) (out []gpu.InstanceSample, known bool) {
	at := func(p *part) time.Duration {
		k := key{p.entity, activity}
		return m.of(k, vs[k], now).Boot
	}
	if slices.ContainsFunc(parts, func(p *part) bool { return at(p)-p.read <= shortest }) {
		return nil, false
	}
	known = len(parts) > 0
	for _, p := range parts {
		span := gpu.Span{From: p.read, To: at(p)}
		ratio, ok := vs[key{p.entity, activity}].number()
		known = known && ok && ratio >= 0 && ratio <= 1.01 && span.From > 0 && span.Len() <= longest
		out = append(out, gpu.InstanceSample{Instance: p.instance.ID, Span: span, SM: min(ratio, 1)})
		p.read = span.To
		if !ok {
			p.read = 0
		}
	}
	if !known {
		return nil, false
	}
	return out, true
}
