// Package source decides who reads the GPUs: the driver's library, or a DCGM host
// engine beside it.
//
// Where the engine serves, the library is read too. It alone knows which processes are
// on which GPU, as this PID namespace sees them, and what the engine has no field for.
// So a change between the two costs nothing: the other one's reading is there already,
// and it is of the same counter of the same board. All that may change is its time,
// since the engine read the counter a little before.
package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// A Driver gives readings.
type Driver interface {
	Read(ctx context.Context) (gpu.Report, error)
	// Close ends it. What does not return in time is left as it is.
	Close(wait time.Duration) error
}

// Config says who may serve.
type Config struct {
	// NVML is the driver's library.
	NVML Driver
	// DCGM is the host engine, nil if there is none.
	DCGM Driver
	// Alone lets no report be without the engine: it is an error if that does not
	// answer. Otherwise the library serves then.
	Alone  bool
	Now    gpu.Clock
	Log    *slog.Logger
	Stages *stage.Set
}

// Source is the one source of readings. It is used by one goroutine.
type Source struct {
	cfg Config
	// serving is who served last, empty before.
	serving string
	boards  map[string]*board // by UUID
	xids    xids
	fields  *gpu.FieldPage // the engine's last field page; nil once it is too old
	paged   time.Duration  // when the engine returned it, boot clock
}

// New returns a source that has not read anything yet.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, boards: make(map[string]*board)}
}

// Read returns the report of the engine with what only the library knows, or that of
// the library if there is no engine, or none that answers. With an error the report has a
// field page at most.
func (s *Source) Read(ctx context.Context) (gpu.Report, error) {
	if s.cfg.DCGM == nil {
		return s.cfg.NVML.Read(ctx)
	}
	library := make(chan outcome, 1)
	go func() { library <- s.read(ctx, s.cfg.NVML, stage.NVML) }()
	engine := s.read(ctx, s.cfg.DCGM, stage.DCGM)
	report, err := s.serve(engine, <-library)
	if err == nil {
		report.XIDs = s.xids.take()
		s.note(report.Driver.Source)
		s.carry(&report)
	}
	report.Fields = s.page(engine.Fields)
	return report, err
}

type outcome struct {
	gpu.Report
	err error
}

func (s *Source) read(ctx context.Context, d Driver, name stage.Name) outcome {
	began := s.cfg.Now()
	r, err := d.Read(ctx)
	if ctx.Err() == nil {
		s.cfg.Stages.Observe(name, began, err)
	}
	return outcome{r, err}
}

// serve returns the report of who serves. What a driver tells once is kept, whoever
// serves.
func (s *Source) serve(engine, library outcome) (gpu.Report, error) {
	s.xids.add(stage.NVML, library.XIDs)
	s.xids.add(stage.DCGM, engine.XIDs)
	for i := range library.Devices {
		d := &library.Devices[i]
		s.board(d.UUID).known = *d
	}
	switch {
	case engine.err == nil:
		return s.merge(engine.Report, library), nil
	case s.cfg.Alone:
		s.hold(library.Readings)
		return gpu.Report{}, engine.err
	case library.err == nil:
		return s.unaided(library), nil
	default:
		return gpu.Report{}, fmt.Errorf("%w; %w", library.err, engine.err)
	}
}

// pageKept is how long a field page is served without a newer one. Values on it are dropped
// at the same age.
const pageKept = 30 * time.Second

// page returns the engine's field page. The last one is kept for a while, so that an answer
// that is late or missing leaves no gap.
func (s *Source) page(latest *gpu.FieldPage) *gpu.FieldPage {
	now := s.cfg.Now().Boot
	switch {
	case latest != nil:
		s.fields, s.paged = latest, now
	case now-s.paged >= pageKept:
		s.fields = nil
	}
	return s.fields
}

// note logs who serves, when that changes.
func (s *Source) note(serving string) {
	if s.serving != serving {
		s.serving = serving
		s.cfg.Log.Info("GPUs are read through", "source", serving)
	}
}

// Close ends both.
func (s *Source) Close(wait time.Duration) error {
	if s.cfg.DCGM == nil {
		return s.cfg.NVML.Close(wait)
	}
	engine := make(chan error, 1)
	go func() { engine <- s.cfg.DCGM.Close(wait) }()
	return errors.Join(s.cfg.NVML.Close(wait), <-engine)
}
