package sampler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"maps"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/state"
)

// store contains the ledger and its file. The file system may hang, so every call that uses it runs in a lane. A lane
// is a separate goroutine for which the caller stops waiting after a timeout.
type store struct {
	cfg     Config
	opening lane.Lane[opened]
	saving  lane.Lane[saved]
	dir     *state.Dir // nil while the exporter does not hold the directory
	// failures is the number of failed attempts to open the directory before this exporter charges energy.
	failures int
	// ledger is nil while another exporter on this node charges energy. Before that, it is nil until the directory is
	// opened or openAttempts attempts have failed.
	ledger *ledger.Ledger
	// locked is set while another exporter holds the directory. waiting contains error events that must not be counted
	// before the state file is read.
	locked  bool
	waiting []gpu.DriverEvent
	// stale is set while the state in the file may be older than the books. A restart would then continue from an older
	// state.
	stale    bool
	idle     idlePowers
	jobs     descriptions
	switches nvSwitches
}

// saved contains the errors of one save: for the ledger's file, for the table of idle powers, and for the table of
// descriptions. If a table need not be saved, its error is nil.
type saved struct {
	err, tableErr, jobsErr error
	table                  []idleRow
	jobs                   []descriptionRow
}

const (
	// answerTimeout is the maximum time for which a tick waits for the file system. After a timeout, later ticks do not
	// wait until the file system has responded.
	answerTimeout = 2 * time.Second
	// closeTimeout is the maximum time for which the program waits for the file system before it exits.
	closeTimeout = 250 * time.Millisecond
)

// record is a line of the file: a GPU, the errors of an NVSwitch, or a part of the books.
type record struct {
	GPU      *entry              `json:"gpu,omitempty"`
	NVSwitch *gpu.NVSwitchErrors `json:"nvswitch,omitempty"`
	ledger.Record
}

type content struct {
	gpus     map[string]entry // entries by UUID
	switches []gpu.NVSwitchErrors
	books    ledger.Builder
}

func (c *content) add(version int, line json.RawMessage) error {
	var r record
	if err := json.Unmarshal(line, &r); err != nil {
		return err
	}
	if version == 2 {
		if err := r.upgrade(line); err != nil {
			return err
		}
	}
	switch {
	case r.GPU != nil:
		c.gpus[r.GPU.UUID] = *r.GPU
	case r.NVSwitch != nil:
		c.switches = append(c.switches, *r.NVSwitch)
	default:
		return c.books.Add(r.Record)
	}
	return nil
}

// The iterator yields the same variable for every line of the file, so a line is valid only until the next line.
func records(gpus map[string]entry, switches []gpu.NVSwitchErrors, books ledger.State) iter.Seq[any] {
	return func(yield func(any) bool) {
		var r record
		for _, e := range gpus {
			if r.GPU = &e; !yield(&r) {
				return
			}
		}
		r.GPU = nil
		for _, e := range switches {
			if r.NVSwitch = &e; !yield(&r) {
				return
			}
		}
		r.NVSwitch = nil
		for r.Record = range books.Records() {
			if !yield(&r) {
				return
			}
		}
	}
}

// openAttempts is the number of failed attempts to open the directory after which this exporter charges energy without
// the file. It is more than one, because the file system may become available late.
const openAttempts = 3

type opened struct {
	dir     *state.Dir
	err     error // error from opening the directory
	content content
	unread  error // error from reading the file
	idle    idlePowers
	ignored error // error from reading the table of idle powers
	jobs    descriptions
	noJobs  error // error from reading the table of descriptions
}

// errNoBoot means that the boot id is unknown. The books must continue from a file of the same boot, so this exporter
// charges no energy until the boot id is known.
var errNoBoot = errors.New("not charging energy until the boot id is known")

// open reads the file of the state directory only if read is set. open runs in a lane, because it may hang.
func open(cfg Config, read bool) (o opened) {
	boot, err := cfg.Host.BootID()
	if err != nil {
		return opened{err: fmt.Errorf("%w: %w", errNoBoot, err)}
	}
	if o.dir, o.err = state.Open(cfg.StatePath, boot); o.err == nil && read {
		o.content.gpus = make(map[string]entry)
		o.unread = o.dir.Load(o.content.add)
		o.ignored = o.dir.LoadTable(state.IdlePowers, &o.idle.stored, o.idle.check)
		o.noJobs = o.dir.LoadTable(state.Descriptions, &o.jobs.stored, o.jobs.check)
	}
	return o
}

// acquire opens the state directory if it is free. If it continues the books of an earlier exporter, it returns the
// GPUs of that exporter.
//
// This exporter charges nothing while another exporter holds the directory. Before its first charge, it also charges
// nothing while the boot id is unknown or the directory hangs. If openAttempts attempts to open the directory have
// failed, this exporter charges energy without the file. Its counters then start at 0 after the next restart.
func (s *store) acquire(ctx context.Context) map[string]entry {
	if s.dir != nil {
		return nil
	}
	began := s.cfg.Now()
	if !s.opening.Busy() {
		cfg, read := s.cfg, s.ledger == nil
		s.opening.Begin(func() opened { return open(cfg, read) })
	}
	o, ok := take(ctx, &s.opening)
	if !ok {
		s.late(ctx, began)
		return nil
	}
	s.dir, s.stale, s.locked = o.dir, false, errors.Is(o.err, state.ErrLocked)
	switch {
	case s.locked:
		s.ledger = nil
		s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("not charging energy: %w", o.err))
		return nil
	case o.err != nil:
		s.cfg.Stages.Observe(stage.State, began, o.err)
		if errors.Is(o.err, errNoBoot) {
			return nil
		}
		if s.failures++; s.failures >= openAttempts && s.ledger == nil {
			s.ledger = ledger.New(s.cfg.Ledger)
		}
		return nil
	case s.ledger != nil: // the books started without the file, and their values were already published
		s.idle.saved, s.jobs.saved = nil, nil // the directory may be new, so the tables are saved again
		return nil
	}
	s.restoreIdle(o.idle, o.ignored)
	s.restoreJobs(o.jobs, o.noJobs)
	return s.restore(began, o.content, o.unread)
}

// countable returns the error events to count now. Events wait until the state file is read, because the counts in the
// file replace all earlier counts. While another exporter holds the directory, countable drops events, because the
// other exporter counts them.
func (s *store) countable(events []gpu.DriverEvent) []gpu.DriverEvent {
	for _, x := range events {
		s.waiting = x.Queue(s.waiting)
	}
	if s.ledger == nil && !s.locked {
		return nil
	}
	events, s.waiting = s.waiting, nil
	if s.locked {
		return nil
	}
	return events
}

func take[T any](ctx context.Context, l *lane.Lane[T]) (T, bool) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	return l.Take(ctx)
}

func (s *store) observe(began gpu.Instant, err error) {
	if errors.Is(err, state.ErrOversized) {
		err = fmt.Errorf("%w: %w", err, stage.ErrOversized)
	}
	s.cfg.Stages.Observe(stage.State, began, err)
}

// late records that the file system hangs, unless the program is about to exit.
func (s *store) late(ctx context.Context, began gpu.Instant) {
	s.stale = true
	if ctx.Err() == nil {
		s.cfg.Stages.Observe(stage.State, began, fmt.Errorf("the file system of %s did not respond within %v; the exported energy does not change until the file system responds",
			s.cfg.StatePath, answerTimeout))
	}
}

// restore continues the books of an earlier exporter. If the file is invalid, it starts empty books, so that no wrong
// energy is added. If only the books are invalid, it keeps the identities of the GPUs.
func (s *store) restore(began gpu.Instant, c content, err error) map[string]entry {
	s.ledger = ledger.New(s.cfg.Ledger)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	gpus := c.gpus
	if err != nil {
		gpus = nil // the content of the file is invalid
	} else {
		s.switches.restore(c.switches)
		err = c.books.State.Check(began.Boot)
	}
	if err != nil {
		s.observe(began, fmt.Errorf("starting new books, without the energy that was charged before: %w", err))
		return gpus
	}
	s.ledger = ledger.Restore(s.cfg.Ledger, c.books.State)
	s.cfg.Log.Info("continuing the books of an earlier exporter", "path", s.cfg.StatePath, "books", len(c.books.State.Books))
	return gpus
}

// books returns an empty state while there is no ledger.
func (s *store) books() ledger.State {
	if s.ledger == nil {
		return ledger.State{}
	}
	return s.ledger.State()
}

// save must be called before the state is published. If the directory was removed or replaced, save closes it, and the
// next tick opens it again.
func (s *store) save(ctx context.Context, gpus map[string]entry, v view, books ledger.State) {
	if s.dir == nil {
		return
	}
	began := s.cfg.Now()
	if !s.finish(ctx, began) || s.dir == nil {
		return
	}
	dir, entries, switches := s.dir, copied(gpus), s.switches.list()
	result := saved{table: s.idle.update(began.Boot, gpus, v.report.Drivers, books), jobs: s.jobs.update(began.Boot, v.units)}
	s.saving.Begin(func() saved {
		if result.err = dir.Save(records(entries, switches, books)); errors.Is(result.err, state.ErrGone) {
			_ = dir.Close()
			return saved{err: result.err}
		}
		if result.table != nil {
			result.tableErr = dir.SaveTable(state.IdlePowers, result.table)
		}
		if result.jobs != nil {
			result.jobsErr = dir.SaveTable(state.Descriptions, result.jobs)
		}
		return result
	})
	s.finish(ctx, began)
}

// finish records the result of a save, and reports whether the lane is idle.
func (s *store) finish(ctx context.Context, began gpu.Instant) bool {
	if !s.saving.Busy() {
		return true
	}
	result, ok := take(ctx, &s.saving)
	if !ok {
		s.late(ctx, began)
		return false
	}
	err := result.err
	s.observe(began, err)
	switch {
	case result.tableErr != nil:
		s.cfg.Log.Warn("cannot save idle powers", "err", result.tableErr)
	case result.table != nil:
		s.idle.saved = result.table
	}
	switch {
	case result.jobsErr != nil && !s.jobs.failed:
		s.jobs.failed = true
		s.cfg.Log.Warn("cannot save the descriptions of jobs", "err", result.jobsErr)
	case result.jobsErr == nil && result.jobs != nil:
		s.jobs.saved, s.jobs.failed = result.jobs, false
	}
	s.stale = errors.Is(err, state.ErrStale)
	if errors.Is(err, state.ErrGone) {
		s.dir = nil
	}
	return true
}

// The GPUs may change while a late save still reads them, so the save gets a copy.
func copied(gpus map[string]entry) map[string]entry {
	gpus = maps.Clone(gpus)
	for uuid, e := range gpus {
		e.Events = e.Events.Clone()
		gpus[uuid] = e
	}
	return gpus
}

// close returns after closeTimeout even if a call hangs. The operating system releases the lock of the directory when
// the process exits.
func (s *store) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if s.opening.Busy() {
		o, _ := s.opening.Wait(ctx)
		s.dir = o.dir
	}
	if s.dir == nil {
		return nil
	}
	if s.saving.Busy() {
		if result, ok := s.saving.Wait(ctx); !ok || errors.Is(result.err, state.ErrGone) {
			return nil
		}
	}
	dir := s.dir
	s.dir = nil
	err, _ := lane.Run(ctx, dir.Close)
	return err
}
