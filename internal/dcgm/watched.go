package dcgm

import (
	"errors"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

// The fields of a reading. Energy is read twice a tick, so that a tick never finds the
// value of the one before.
var (
	energyFields = []field{godcgm.DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION}
	gaugeFields  = []field{
		godcgm.DCGM_FI_DEV_BOARD_POWER_WATTS, godcgm.DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS,
		godcgm.DCGM_FI_DEV_GPU_TEMP_CELSIUS, godcgm.DCGM_FI_DEV_GPU_UTIL_RATIO,
		godcgm.DCGM_FI_DEV_FB_USED, godcgm.DCGM_FI_DEV_FB_TOTAL,
		godcgm.DCGM_FI_DEV_SM_CLOCK, godcgm.DCGM_FI_DEV_MEM_CLOCK, godcgm.DCGM_FI_DEV_MIG_MODE,
		godcgm.DCGM_FI_DEV_ROW_REMAP_PENDING, godcgm.DCGM_FI_DEV_ROW_REMAP_FAILED,
	}
	xidFields     = []field{godcgm.DCGM_FI_DEV_XID_ERROR}
	readingFields = slices.Concat(energyFields, gaugeFields, xidFields)
)

// What can be done without, as the groups of the engine are named.
const (
	xidsWatch      = "xids"
	activityWatch  = "activity"
	pageWatch      = "page"
	instancesWatch = "page-instances"
)

// retention is how long the engine keeps values that it reads every so often: longer than
// the time between two updates, of which it may be late by one.
func retention(every time.Duration) time.Duration { return max(10*time.Second, 3*every) }

// xidsEvery is how often the engine looks for errors of which it was told no event.
const xidsEvery = 10 * time.Second

// watch has the fields of all GPUs watched. Without energy and gauges there is nothing
// to read; what else fails is told once and missing.
func (d *session) watch() error {
	if len(d.gpus) == 0 {
		return nil
	}
	needed := []*watch{
		{name: "energy", fields: energyFields, every: d.cfg.Tick / 2},
		{name: "gauges", fields: gaugeFields, every: d.cfg.Tick},
	}
	for _, w := range needed {
		w.of, w.keep = d.gpus, retention(w.every)
		if err := w.begin(d.engine); err != nil {
			return err
		}
		d.watches = append(d.watches, w)
	}
	d.watchXIDs()
	d.watchPage()
	return nil
}

// watchXIDs has the engine told of errors.
func (d *session) watchXIDs() {
	_, err := d.replace(nil, &watch{name: xidsWatch, of: d.gpus, fields: xidFields, every: xidsEvery, keep: time.Minute})
	d.doWithout(xidsWatch, err)
}

// replace lets a watch take the place of another one, or of none. A watch of nothing is
// none. The error says why there is none where there should be one. The engine goes on
// measuring what both watch, unless an entity is to be watched no longer.
func (d *session) replace(old, w *watch) (*watch, error) {
	ended := func(err error) {
		if err != nil {
			d.cfg.Log.Debug("give back a watch", "fields", old.name, "err", err)
		}
	}
	if old != nil && slices.Equal(old.of, w.of) && slices.Equal(old.fields, w.fields) {
		return old, nil
	}
	if old != nil {
		d.watches = slices.DeleteFunc(d.watches, func(o *watch) bool { return o == old })
		if !w.covers(old.of) {
			ended(old.end())
		}
	}
	if len(w.of) == 0 || len(w.fields) == 0 {
		return nil, nil
	}
	err := w.begin(d.engine)
	switch {
	case err == nil && old != nil:
		ended(old.cede())
	case old != nil:
		ended(old.end())
	}
	if err != nil {
		return nil, err
	}
	d.watches = append(d.watches, w)
	return w, nil
}

// latest asks for the newest values of fields that are watched of some entities, and for
// no others: the engine writes a line to its log for each.
func (d *session) latest(of []entity, fields []field) (values, error) {
	return d.engine.latest(of, slices.DeleteFunc(slices.Clone(fields), func(f field) bool {
		return !slices.ContainsFunc(d.watches, func(w *watch) bool { return slices.Contains(w.fields, f) && w.covers(of) })
	}))
}

// doWithout tells once of what cannot be watched. No error is that it can.
func (d *session) doWithout(name string, err error) {
	if err == nil {
		delete(d.without, name)
		return
	}
	if !d.without[name] {
		d.cfg.Log.Warn("the host engine does not serve some fields, going on without", "fields", name, "err", err)
	}
	d.without[name] = true
}

// regain tries again what is done without: room that others had, or profiling.
func (d *session) regain() {
	if d.without[xidsWatch] {
		d.watchXIDs()
	}
	page := d.without[pageWatch] || d.without[instancesWatch]
	if d.without[activityWatch] {
		d.watchInstances()
		page = page || d.mig.watch != nil // which has the page's watch of activity now
	}
	if page {
		d.watchPage()
	}
}

// unwatch takes every watch out of the engine.
func (d *session) unwatch() (err error) {
	for _, w := range d.watches {
		err = errors.Join(err, w.end())
	}
	d.watches = nil
	return err
}
