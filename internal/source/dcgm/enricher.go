package dcgm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
)

// Config is the configuration of an [Enricher].
type Config struct {
	Address Address
	// LibraryPath is the path of the client library. If it is empty, the loader finds libdcgm.so.4 in
	// its search path.
	LibraryPath string
	// CallTimeout is the maximum time for which Enrich waits. It must be positive.
	CallTimeout time.Duration
	// Tick is the usual interval between two calls of Enrich.
	Tick time.Duration
	// Profiling makes the engine measure the activity of MIG instances. On GPUs before Hopper, no
	// other program can then use the profiling counters.
	Profiling bool
	// Fields contains the fields for the field page. If it is nil, there is no page.
	Fields []Field
	Now    gpu.Clock
	Log    *slog.Logger
}

// Enricher adds the field page, the activity of MIG instances, and the versions of engine and
// library to a report. It connects at the first call, and again after the connection was lost. A
// process can have only one Enricher at a time, because the binding has only one connection.
type Enricher struct {
	cfg Config

	mu      sync.Mutex // allows one Enrich or Close at a time; guards the fields below
	lane    lane.Lane[answer]
	session *session // nil while there is no connection; belongs to the lane while the lane is busy
	closed  bool
	retry   backoff
	err     error  // reason why there is no connection
	skew    string // version of the engine that was last logged as too old for the library

	page  *gpu.FieldPage // last field page, or nil if it is too old
	paged time.Duration  // boot-clock time at which the engine returned the page
}

type answer struct {
	session *session
	addition
	err error
}

type addition struct {
	page *gpu.FieldPage
	// activity contains the activity of MIG instances since the last answer, by UUID of the GPU.
	activity map[string][]gpu.InstanceSample
}

// New returns an enricher. It does not load the library before the first Enrich.
func New(cfg Config) *Enricher {
	return &Enricher{cfg: cfg, err: errors.New("not connected yet")}
}

// Enrich connects to the engine if necessary, and adds the engine's values to the report. It takes at most about
// [Config.CallTimeout]. If no new field page arrives in time, it uses the last page until that page expires.
func (e *Enricher) Enrich(ctx context.Context, report *gpu.Report) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, err := e.ask(ctx, report.Devices)
	e.keep(a.page)
	report.Fields = e.page
	if a.session != nil {
		enrichDrivers(report, a.session.engine)
		enrichReadings(report, a.activity)
	}
	return err
}

func (e *Enricher) ask(ctx context.Context, devices []gpu.Device) (answer, error) {
	if e.closed {
		return answer{}, errors.New("closed")
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.CallTimeout)
	defer cancel()
	if e.lane.Busy() && e.lane.Late() {
		a, ok := e.lane.Poll()
		if !ok {
			return answer{}, errLate
		}
		e.keep(a.page)
		_ = e.accept(a) // the next turn returns the error
	}
	if e.session == nil && e.cfg.Now().Boot < e.retry.next {
		return answer{}, e.err
	}
	if !e.lane.Busy() {
		d, known := e.session, slices.Clone(devices)
		e.lane.Begin(func() answer { return e.turn(d, known) })
	}
	a, ok := e.lane.Wait(ctx)
	if !ok {
		return answer{}, errLate
	}
	return a, e.accept(a)
}

var errLate = errors.New("host engine call timed out, still waiting for the call to return")

func enrichDrivers(report *gpu.Report, e *engine) {
	for i := range report.Drivers {
		if d := &report.Drivers[i]; d.Vendor == "NVIDIA" {
			details := map[string]string{"dcgm_version": e.version, "dcgm_library_version": e.library}
			maps.Copy(details, d.Details)
			d.Details = details
		}
	}
}

// enrichReadings adds the activity only if all instances of a GPU were measured.
func enrichReadings(report *gpu.Report, activity map[string][]gpu.InstanceSample) {
	for i := range report.Readings {
		r := &report.Readings[i]
		samples := activity[r.UUID]
		k := slices.IndexFunc(report.Devices, func(d gpu.Device) bool { return d.UUID == r.UUID })
		if !r.InstancesKnown && len(samples) > 0 && k >= 0 && measured(report.Devices[k].Partitions, samples) {
			r.Instances, r.InstancesKnown = samples, true
		}
	}
}

// The samples may belong to other instances, because the driver and the engine may have listed the instances at
// different times.
func measured(m *gpu.Partitioning, samples []gpu.InstanceSample) bool {
	return m != nil && len(m.Instances) == len(samples) && !slices.ContainsFunc(samples, func(s gpu.InstanceSample) bool {
		return !slices.ContainsFunc(m.Instances, func(i gpu.Partition) bool { return i.ID == s.Instance })
	})
}

// pageKept is the time for which a field page is used if there is no newer page. A single value on the page also
// expires after this time.
const pageKept = 30 * time.Second

func (e *Enricher) keep(latest *gpu.FieldPage) {
	now := e.cfg.Now().Boot
	switch {
	case latest != nil:
		e.page, e.paged = latest, now
	case now-e.paged >= pageKept:
		e.page = nil
	}
}

// turn runs in the lane. After the connection was lost, it reconnects immediately, and then retries with increasing
// delays.
func (e *Enricher) turn(d *session, devices []gpu.Device) answer {
	if d != nil {
		if a := e.readSession(d, devices); a.session != nil {
			return a
		}
	}
	d, err := open(e.cfg)
	if err != nil {
		return answer{err: err}
	}
	return e.readSession(d, devices)
}

// readSession disconnects if the engine is lost or rejects the requests.
func (e *Enricher) readSession(d *session, devices []gpu.Device) answer {
	more, err := d.read(devices)
	if err == nil {
		return answer{session: d, addition: more}
	}
	err = fmt.Errorf("read host engine: %w", d.engine.explain(err))
	if !gone(err) && code(err) != codeNoFunction {
		return answer{session: d, addition: more, err: err}
	}
	d.leave()
	return answer{err: err}
}

func (e *Enricher) accept(a answer) error {
	e.session = a.session
	if a.session == nil {
		e.err = a.err
		e.retry.fail(e.cfg.Now().Boot)
		return a.err
	}
	e.retry = backoff{}
	if n := a.session.engine; n.skewed() && e.skew != n.version {
		e.skew = n.version
		e.cfg.Log.Warn("libdcgm is newer than the host engine, so requests may fail", "library", n.library, "engine", n.version)
	}
	return a.err
}

type backoff struct {
	pause, next time.Duration // next is the boot-clock time of the next attempt
}

const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

func (b *backoff) fail(now time.Duration) {
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.next = now + b.pause
}

// Close waits for the call in flight, removes gpuledger's groups from the engine, and disconnects.
// If the call does not return in time, the engine removes the groups after the process has ended.
func (e *Enricher) Close(wait time.Duration) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if e.lane.Busy() {
		a, ok := e.lane.Wait(ctx)
		if !ok {
			return errors.New("not disconnected from the host engine: a call has not returned")
		}
		e.session = a.session
	}
	if e.session == nil {
		return nil
	}
	d := e.session
	e.session = nil
	err, ok := lane.Run(ctx, d.close)
	switch {
	case !ok:
		return errors.New("not disconnected from the host engine: the disconnect timed out")
	case err != nil:
		return fmt.Errorf("close host engine: %w", err)
	}
	return nil
}
