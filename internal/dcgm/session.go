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
	// Without a driver the version is blank and its status good, or it is -56 (DCGM_ST_NVML_NOT_LOADED).
	if _, known := vs[key{system, driverVersion}].word(); !known && len(gpus) == 0 {
		return errors.New("the host engine has no driver")
	}
	vs[key{system, driverVersion}].setWord(&d.driver.DriverVersion)
	vs[key{system, nvmlVersion}].setWord(&d.driver.NVMLVersion)
	if err := d.identify(); err != nil {
		return err
	}
	if len(d.gpus) > 0 && !slices.ContainsFunc(d.gpus, func(g entity) bool { return d.boards[g].device.UUID != "" }) {
		return errors.New("the host engine tells the UUID of no GPU")
	}
	return d.watch()
}

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
