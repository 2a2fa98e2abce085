package dcgm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// recount is the interval at which the engine's GPUs are listed and failures are retried.
const recount = 10 * time.Second

// A session is one connection to the engine. It is used only in the lane.
type session struct {
	cfg    Config
	engine *engine

	gpus    []entity
	uuids   map[entity]string // UUIDs of the GPUs; missing UUIDs are read again
	watches []*watch
	// unserved contains the names of failed watches that were logged.
	unserved  map[string]bool
	moments   moments
	counted   time.Duration // boot-clock time at which the GPUs were last counted
	instances instances
	page      fieldPage
}

func open(cfg Config) (*session, error) {
	e := new(engine)
	if err := e.connect(cfg.LibraryPath, cfg.Address); err != nil {
		return nil, err
	}
	d := &session{cfg: cfg, engine: e, uuids: make(map[entity]string), unserved: make(map[string]bool), moments: make(moments)}
	if err := d.begin(); err != nil {
		d.leave()
		return nil, fmt.Errorf("open host engine: %w", e.explain(err))
	}
	return d, nil
}

// close removes gpuledger's groups from the engine. If the connection was lost, the engine has already removed them.
func (d *session) close() error {
	if _, err := d.count(); gone(err) {
		_ = d.engine.close() // so that the binding also discards the connection
		return nil
	}
	return errors.Join(d.unwatch(), d.engine.close())
}

func (d *session) leave() {
	if err := d.close(); err != nil {
		d.cfg.Log.Debug("disconnect from host engine", "err", err)
	}
}

func (d *session) begin() (err error) {
	if d.gpus, err = d.count(); err != nil {
		return err
	}
	system := entity{EntityGroupId: godcgm.FE_NONE}
	vs, err := d.engine.readLive([]entity{system}, godcgm.DCGM_FI_SYSTEM_DRIVER_VERSION)
	if err != nil {
		return err
	}
	// Without a driver, either the version is blank and the status is 0, or the status is -56
	// (DCGM_ST_NVML_NOT_LOADED).
	if _, known := vs[key{system, godcgm.DCGM_FI_SYSTEM_DRIVER_VERSION}].word(); !known && len(d.gpus) == 0 {
		return errors.New("the host engine reports no driver")
	}
	if err := d.identify(); err != nil {
		return err
	}
	if len(d.gpus) > 0 && len(d.uuids) == 0 {
		return errors.New("the host engine returns no GPU UUIDs")
	}
	d.watchPage()
	return nil
}

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

func (d *session) identify() error {
	unknown := slices.DeleteFunc(slices.Clone(d.gpus), func(g entity) bool { return d.uuids[g] != "" })
	if len(unknown) == 0 {
		return nil
	}
	vs, err := d.engine.readLive(unknown, godcgm.DCGM_FI_DEV_GPU_UUID)
	for _, g := range unknown {
		if uuid, ok := vs[key{g, godcgm.DCGM_FI_DEV_GPU_UUID}].word(); ok {
			d.uuids[g] = uuid
		}
	}
	return err
}

// errChanged means that a new session is required.
var errChanged = errors.New("the GPUs of the host engine changed")

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
	d.rewatch()
	return nil
}

// If read returns an error, the returned values may be incomplete.
func (d *session) read(devices []gpu.Device) (addition, error) {
	if err := d.renew(); err != nil {
		return addition{}, err
	}
	listed := d.listInstances(devices)
	page, paged := d.readPage()
	activity, measured := d.readActivity()
	return addition{page, activity}, errors.Join(listed, paged, measured)
}
