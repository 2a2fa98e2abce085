package dcgm

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// pageEvery is the interval at which the engine reads the fields of the page.
const pageEvery = 10 * time.Second

// maxAttempts limits the requests for missing labels, because the engine logs a line for every field that the driver
// does not support.
const maxAttempts = 3

type fieldPage struct {
	sorted bool
	// metrics and labels contain the available fields. unserved names the other fields with the reasons, until they are
	// logged.
	metrics, labels []Field
	unserved        []string
	whole           *watch         // watch of the fields of GPUs
	divided         *watch         // watch of the fields of MIG instances
	texts           map[key]string // values of labels
	attempts        int            // remaining requests for labels
	read            time.Duration  // boot-clock time at which latest was created
	latest          *gpu.FieldPage
}

// watchPage does nothing until the GPUs are known.
func (d *session) watchPage() {
	if len(d.cfg.Fields) == 0 || len(d.gpus) == 0 {
		return
	}
	p := &d.page
	if !p.sorted {
		p.sorted = true
		d.sortFields()
	}
	p.whole = d.watchAll(p.whole, &watch{name: pageWatch, of: d.gpus, fields: ids(p.metrics), every: pageEvery, keep: retention(pageEvery)}, d.refuse)
	parts := slices.DeleteFunc(ids(p.metrics), func(f field) bool {
		return !d.perInstance(f) || f == activity && d.instances.watch != nil
	})
	p.divided = d.watchAll(p.divided, &watch{name: instancesWatch, of: entities(d.instances.list), fields: parts, every: pageEvery, keep: retention(pageEvery)},
		func(f field, err error) { d.note(fmt.Sprintf("field %d of MIG instances", f), err) })
	if len(p.unserved) > 0 {
		d.cfg.Log.Warn("omitting fields of /gpu/metrics that the host engine does not serve", "fields", strings.Join(p.unserved, "; "))
		p.unserved = nil
	}
	p.latest, p.attempts = nil, maxAttempts
}

// ids removes duplicates, because an old and a new name may stand for the same field.
func ids(fields []Field) (out []field) {
	for _, f := range fields {
		if !slices.Contains(out, f.id) {
			out = append(out, f.id)
		}
	}
	return out
}

// perInstance reports whether the engine also provides the field for each MIG instance.
func (d *session) perInstance(f field) bool {
	meta, ok := d.engine.meta(f)
	return ok && (meta.EntityLevel == godcgm.FE_GPU_I || meta.EntityLevel == godcgm.FE_GPU_CI)
}

// sortFields drops fields that do not belong to a GPU and metrics that are not numeric.
func (d *session) sortFields() {
	p := &d.page
	for _, f := range d.cfg.Fields {
		meta, known := d.engine.meta(f.id)
		numeric := slices.Contains([]uint{godcgm.DCGM_FT_INT64, godcgm.DCGM_FT_DOUBLE, godcgm.DCGM_FT_TIMESTAMP}, uint(meta.FieldType))
		switch {
		case !known:
			p.unserved = append(p.unserved, f.Name+": libdcgm does not support this field")
		case f.Type == Label:
			p.labels = append(p.labels, f)
		case !numeric:
			p.unserved = append(p.unserved, f.Name+": not a number")
		case !slices.Contains([]godcgm.Field_Entity_Group{godcgm.FE_GPU, godcgm.FE_GPU_I, godcgm.FE_GPU_CI}, meta.EntityLevel):
			p.unserved = append(p.unserved, f.Name+": this field does not belong to a GPU")
		default:
			p.metrics = append(p.metrics, f)
		}
	}
}

// refuse drops the metrics of a field that the engine rejects. The field must not be requested again, because the
// engine rejects a whole request if one of its fields is unknown.
func (d *session) refuse(f field, err error) {
	p := &d.page
	p.metrics = slices.DeleteFunc(p.metrics, func(m Field) bool {
		if m.id == f {
			p.unserved = append(p.unserved, fmt.Sprintf("%s: %v", m.Name, err))
		}
		return m.id == f
	})
}

// watchAll watches only the fields that the engine accepts, because a watch fails if one of its fields is rejected. If
// the engine has no free group, watchAll drops no fields.
func (d *session) watchAll(old, w *watch, refused func(field, error)) *watch {
	next, err := d.replace(old, w)
	// If the engine rejects a field, it usually rejects the field for all entities. Therefore one entity is tried
	// first.
	for _, of := range [][]entity{w.of[:min(1, len(w.of))], w.of} {
		if err == nil || full(err) {
			break
		}
		w.fields = slices.DeleteFunc(w.fields, func(f field) bool {
			single := &watch{name: w.name, of: of, fields: []field{f}, every: w.every, keep: w.keep}
			err := single.begin(d.engine)
			_ = single.end()
			if err != nil && !full(err) {
				refused(f, err)
				return true
			}
			return false
		})
		next, err = d.replace(nil, w)
	}
	d.note(w.name, err)
	return next
}

// The values of labels do not change. readTexts retries failures a few times. A blank is a valid value.
func (d *session) readTexts() error {
	p := &d.page
	if p.attempts == 0 {
		return nil
	}
	p.attempts--
	if p.texts == nil {
		p.texts = make(map[key]string)
	}
	failed := false
	system := entity{EntityGroupId: godcgm.FE_NONE}
	for _, f := range p.labels {
		of := d.gpus
		if meta, ok := d.engine.meta(f.id); ok && meta.EntityLevel == godcgm.FE_NONE {
			of = []entity{system}
		}
		vs, err := d.engine.readLive(of, f.id)
		if err != nil {
			return err
		}
		for _, g := range d.gpus {
			v, ok := vs[key{g, f.id}]
			if !ok {
				v = vs[key{system, f.id}]
			}
			if v.status != 0 {
				failed = true
				continue
			}
			p.texts[key{g, f.id}] = v.show()
		}
	}
	if !failed {
		p.attempts = 0
	}
	return nil
}

func (p *fieldPage) labelsOf(g entity) (out []string) {
	for _, f := range p.labels {
		out = append(out, p.texts[key{g, f.id}])
	}
	return out
}

// show returns an empty string if there is no value.
func (v value) show() string {
	if s, ok := v.word(); ok {
		return s
	}
	if n, ok := v.number(); ok {
		return strconv.FormatFloat(n, 'f', -1, 64)
	}
	return ""
}

// readPage returns the last page until the engine has read the fields again.
func (d *session) readPage() (*gpu.FieldPage, error) {
	p, now := &d.page, d.cfg.Now()
	if !p.sorted || p.latest != nil && now.Boot-p.read < pageEvery {
		return p.latest, nil
	}
	if err := d.readTexts(); err != nil {
		return nil, err
	}
	out := &gpu.FieldPage{}
	for _, f := range p.metrics {
		out.Fields = append(out.Fields, gpu.PageField{Name: f.Name, Help: f.Help, Counter: f.Type == Counter})
	}
	for _, f := range p.labels {
		out.Labels = append(out.Labels, f.Name)
	}
	vs, err := d.latest(d.gpus, ids(p.metrics))
	if err != nil {
		return nil, err
	}
	parts, err := d.latest(entities(d.instances.list), ids(p.metrics))
	if err != nil {
		return nil, err
	}
	for _, g := range d.gpus {
		row := d.row(g, vs, now, func(f field) bool {
			return !d.instances.divided[g] || !d.perInstance(f) || f == godcgm.DCGM_FI_DEV_XID_ERROR
		})
		row.UUID, row.Labels = d.uuids[g], p.labelsOf(g)
		out.Rows = append(out.Rows, row)
	}
	for _, i := range d.instances.list {
		row := d.row(i.entity, parts, now, d.perInstance)
		row.UUID, row.Labels = d.uuids[i.gpu], p.labelsOf(i.gpu)
		row.GPUInstance, row.Profile = i.id, i.profile
		out.Rows = append(out.Rows, row)
	}
	p.read, p.latest = now.Boot, out
	return out, nil
}

func (d *session) row(of entity, vs values, now gpu.Instant, shown func(field) bool) gpu.FieldRow {
	row := gpu.FieldRow{Values: make([]*float64, len(d.page.metrics))}
	for i, f := range d.page.metrics {
		v := vs[key{of, f.id}]
		n, ok := v.number()
		ok = ok && now.Boot-d.moments.readAt(key{of, f.id}, v, now).Boot <= retention(pageEvery)
		if f.id == godcgm.DCGM_FI_DEV_XID_ERROR { // this value never expires, because its time is the time of the error
			n, ok = lastXID(of, v)
		}
		if ok && shown(f.id) {
			row.Values[i] = &n
		}
	}
	return row
}

// lastXID returns the code of the last error; 0 for a GPU without errors. DCGM declares the field for compute
// instances, but records errors of the whole board only for the GPU. Therefore lastXID returns no code for an instance
// that had no errors itself. The code 0 would be wrong, because the board may have had an error.
func lastXID(of entity, v value) (code float64, ok bool) {
	n, ok := v.count()
	// The engine has no data before the first error, and never has data for a GPU without events.
	if v.status == codeNoData {
		n, ok = 0, true
	}
	return float64(n), ok && (n != 0 || of.EntityGroupId == godcgm.FE_GPU)
}
