package dcgm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// recount is how often the engine is asked which GPUs there are, and how long what
// could not be told of one is left alone.
const recount = 10 * time.Second

// A session is what is known from one connection to its end. It is used in the lane
// only.
type session struct {
	cfg    Config
	engine *engine
	driver gpu.Driver

	gpus    []entity
	boards  map[entity]*board
	watches []*watch
	// without names what is done without for now, as it was told.
	without map[string]bool
	moments moments
	counted time.Duration // when the GPUs were last counted, boot clock
	xids    xids
	mig     mig
	page    page
}

// open connects and finds out what there is.
func open(cfg Config) (*session, error) {
	e := new(engine)
	if err := e.connect(cfg.LibraryPath, cfg.Address); err != nil {
		return nil, err
	}
	d := &session{cfg: cfg, engine: e, without: make(map[string]bool), moments: make(moments), driver: gpu.Driver{Source: "dcgm", DCGMVersion: e.version, DCGMLibraryVersion: e.library}}
	d.xids = newXIDs(cfg.Now().Wall)
	if err := d.begin(); err != nil {
		d.leave()
		return nil, fmt.Errorf("open host engine: %w", e.explain(err))
	}
	return d, nil
}

// close gives back what the engine holds for us and disconnects. A lost connection took
// everything with it.
func (d *session) close() error {
	if _, err := d.count(); gone(err) {
		_ = d.engine.close() // the binding is to forget it too
		return nil
	}
	return errors.Join(d.unwatch(), d.engine.close())
}

// leave closes a session that is of no use.
func (d *session) leave() {
	if err := d.close(); err != nil {
		d.cfg.Log.Debug("leave host engine", "err", err)
	}
}

// begin finds the GPUs and has their fields watched.
func (d *session) begin() error {
	const driverVersion, nvmlVersion = godcgm.DCGM_FI_SYSTEM_DRIVER_VERSION, godcgm.DCGM_FI_SYSTEM_NVML_VERSION
	gpus, err := d.count()
	if err != nil {
		return err
	}
	d.gpus, d.boards = gpus, make(map[entity]*board, len(gpus))
	for _, g := range gpus {
		d.boards[g] = newBoard()
	}
	system := entity{EntityGroupId: godcgm.FE_NONE}
	vs, err := d.engine.live([]entity{system}, driverVersion, nvmlVersion)
	if err != nil {
		return err
	}
	if vs[key{system, driverVersion}].status == codeNoDriver {
		return errors.New("the host engine has no driver")
	}
	v, ok := vs[key{system, driverVersion}].word()
	assign(&d.driver.DriverVersion, itself, v, ok)
	v, ok = vs[key{system, nvmlVersion}].word()
	assign(&d.driver.NVMLVersion, itself, v, ok)
	if err := d.identify(); err != nil {
		return err
	}
	if len(d.gpus) > 0 && !slices.ContainsFunc(d.gpus, func(g entity) bool { return d.boards[g].device.UUID != "" }) {
		return errors.New("the host engine tells the UUID of no GPU")
	}
	return d.watch()
}

func itself(s string) string { return s }

// count lists the GPUs.
func (d *session) count() (gpus []entity, err error) {
	d.counted = d.cfg.Now().Boot
	err = d.engine.do("dcgmGetAllSupportedDevices", func() error {
		ids, err := godcgm.GetSupportedDevices()
		for _, id := range ids {
			gpus = append(gpus, entity{EntityGroupId: godcgm.FE_GPU, EntityId: id})
		}
		return err
	})
	return gpus, err
}

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

// What can be done without, as the groups of the engine are named.
const (
	xidsWatch      = "xids"
	activityWatch  = "activity"
	pageWatch      = "page"
	instancesWatch = "page-instances"
)

// unwatch takes every watch out of the engine.
func (d *session) unwatch() (err error) {
	for _, w := range d.watches {
		err = errors.Join(err, w.end())
	}
	d.watches = nil
	return err
}

// errChanged is why a session has to begin anew.
var errChanged = errors.New("there are other GPUs now")

// renew looks now and then whether there are other GPUs than before, and asks again for
// what could not be told.
func (d *session) renew() error {
	if d.cfg.Now().Boot-d.counted < recount {
		return nil
	}
	gpus, err := d.count()
	switch {
	case err != nil:
		return err
	case !slices.Equal(gpus, d.gpus):
		return errChanged
	}
	if err := d.identify(); err != nil {
		return err
	}
	if err := d.describeAgain(); err != nil {
		return err
	}
	d.regain()
	return nil
}
