// Package source defines the interfaces for reading GPUs. A [Source] reads the boards of one
// vendor, a [Group] combines sources, and an [Enricher] adds values to a report.
package source

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// A Source reads the boards of one vendor. It is used by one goroutine at a time.
type Source interface {
	// Read returns the latest readings. An error means that the driver as a whole does not respond;
	// a GPU that does not respond has no reading.
	Read(ctx context.Context) (gpu.Report, error)
	// Close waits for calls in flight, and leaves the driver open if these calls do not return in time.
	// The source cannot be read afterwards.
	Close(wait time.Duration) error
}

// An Enricher adds values of another program to a report of the same boards, and changes no
// value in it. It is used by one goroutine at a time.
type Enricher interface {
	// Enrich adds values to the report, which is empty while no source responds. After an error it may
	// have added only some of the values.
	Enrich(ctx context.Context, report *gpu.Report) error
	Close(wait time.Duration) error
}

// Config lists the members of a group.
type Config struct {
	Members []Member // their boards are disjoint
	// Enricher is nil if there is none.
	Enricher Enricher
	// Timeout limits the time for which a Read waits for its sources. Each source has its own, shorter
	// timeout; this timeout applies if a source hangs nevertheless.
	Timeout time.Duration
	Now     gpu.Clock
	Stages  *stage.Set
}

// A Member is a source and the stage that shows its health.
type Member struct {
	Stage  stage.Name
	Source Source
	// Needed reports whether the node has GPUs of the source. Until its first success, a source is read
	// only while such GPUs exist, because otherwise the stage of a vendor without GPUs would fail. If
	// it is nil, the source is always read.
	Needed func() bool
}

// Group reads several sources as one source. A source that hangs delays the others only once, and
// for at most the timeout. It is used by one goroutine at a time.
type Group struct {
	cfg     Config
	readers []*reader
}

// A reader reads one member. Its lane runs at most one Read, which may hang.
type reader struct {
	Member
	lane  lane.Lane[outcome]
	began gpu.Instant
	// proven is set after the first successful Read.
	proven bool
}

type outcome struct {
	gpu.Report
	err error
}

// NewGroup returns a group. It does not read a source before the first Read.
func NewGroup(cfg Config) *Group {
	g := &Group{cfg: cfg}
	for _, m := range cfg.Members {
		g.readers = append(g.readers, &reader{Member: m})
	}
	return g
}

var errLate = errors.New("source call timed out, still waiting for it to return")

// Read returns one report of all sources that respond. An error means that no source responds; the
// report then contains at most a field page. The report of a late source is returned by the next
// Read. This is correct, because each reading contains its own time.
func (g *Group) Read(ctx context.Context) (gpu.Report, error) {
	timeout, cancel := context.WithTimeout(ctx, g.cfg.Timeout)
	defer cancel()
	readers := g.needed()
	for _, m := range readers {
		if !m.lane.Busy() {
			m.began = g.cfg.Now()
			m.lane.Begin(func() outcome {
				report, err := m.Source.Read(ctx)
				return outcome{report, err}
			})
		}
	}
	var report gpu.Report
	var errs []error
	for _, m := range readers {
		o, ok := m.lane.Take(timeout)
		if !ok {
			o.err = errLate
		}
		if ctx.Err() != nil {
			return gpu.Report{}, ctx.Err()
		}
		g.cfg.Stages.Observe(m.Stage, m.began, o.err)
		if o.err != nil {
			errs = append(errs, o.err)
			report.Partial = true
			continue
		}
		m.proven = true
		add(&report, o.Report)
	}
	g.enrich(ctx, &report)
	if len(report.Drivers) == 0 {
		return gpu.Report{Fields: report.Fields}, cmp.Or(errors.Join(errs...), errNone)
	}
	return report, nil
}

// errNone is the error if no source is needed.
var errNone = errors.New("no GPU of a supported vendor")

// needed returns the members to read. The stage of a member that was read without success, and is
// no longer needed, is removed.
func (g *Group) needed() []*reader {
	var needed []*reader
	for _, m := range g.readers {
		if m.proven || m.Needed == nil || m.Needed() {
			needed = append(needed, m)
			continue
		}
		g.cfg.Stages.Forget(m.Stage)
	}
	return needed
}

// add adds the report of a source. A board that another source has already reported is dropped.
func add(report *gpu.Report, more gpu.Report) {
	twice := func(uuid string) bool {
		return slices.ContainsFunc(report.Devices, func(d gpu.Device) bool { return d.UUID == uuid })
	}
	if len(report.Devices) > 0 {
		more.Readings = slices.DeleteFunc(more.Readings, func(r gpu.Reading) bool { return twice(r.UUID) })
		more.Devices = slices.DeleteFunc(more.Devices, func(d gpu.Device) bool { return twice(d.UUID) })
	}
	report.Drivers = append(report.Drivers, more.Drivers...)
	report.Devices = append(report.Devices, more.Devices...)
	report.Readings = append(report.Readings, more.Readings...)
	report.Events = append(report.Events, more.Events...)
}

func (g *Group) enrich(ctx context.Context, report *gpu.Report) {
	if g.cfg.Enricher == nil {
		return
	}
	began := g.cfg.Now()
	err := g.cfg.Enricher.Enrich(ctx, report)
	if ctx.Err() == nil {
		g.cfg.Stages.Observe(stage.DCGM, began, err)
	}
}

// Close closes all sources and the enricher concurrently.
func (g *Group) Close(wait time.Duration) error {
	var closers []func(time.Duration) error
	for _, m := range g.readers {
		closers = append(closers, m.Source.Close)
	}
	if g.cfg.Enricher != nil {
		closers = append(closers, g.cfg.Enricher.Close)
	}
	errs := make(chan error, len(closers))
	for _, c := range closers {
		go func() { errs <- c(wait) }()
	}
	var all []error
	for range closers {
		all = append(all, <-errs)
	}
	return errors.Join(all...)
}
