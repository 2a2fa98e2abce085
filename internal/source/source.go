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

// A Source reads the boards of one vendor. Only one goroutine at a time may use it.
type Source interface {
	// Read returns the latest readings. It returns an error if the driver as a whole does not
	// respond. If a single GPU does not respond, there is no reading of this GPU.
	Read(ctx context.Context) (gpu.Report, error)
	// Close waits for calls in flight. If the calls do not return in time, Close leaves the driver
	// open. The source cannot be read afterwards.
	Close(wait time.Duration) error
}

// An Enricher adds values from another program to a report about the same boards. It does not change values in the
// report. Only one goroutine at a time may use it.
type Enricher interface {
	// Enrich adds values to the report. The report is empty while no source responds. After an error
	// the report may contain only some of the values.
	Enrich(ctx context.Context, report *gpu.Report) error
	Close(wait time.Duration) error
}

// Config lists the members of a group.
type Config struct {
	Members []Member // no two members read the same board
	// Enricher may be nil.
	Enricher Enricher
	// Timeout limits the time for which a Read waits for its sources. Each source also has its own, shorter timeout.
	// Therefore Timeout takes effect only if a source exceeds its own timeout.
	Timeout time.Duration
	Now     gpu.Clock
	Stages  *stage.Set
}

// A Member is a source with the stage that shows the source's health.
type Member struct {
	Stage  stage.Name
	Source Source
	// Needed reports whether the node has GPUs for the source. Until the first successful read of a source, the source
	// is read only while Needed returns true. Otherwise the stage of a vendor without GPUs would fail. If Needed is
	// nil, the source is always read.
	Needed func() bool
}

// Group combines several sources into one source. A source that hangs delays the other sources only once, by at most
// the timeout. Only one goroutine at a time may use a Group.
type Group struct {
	cfg     Config
	readers []*reader
}

// The lane of a reader runs at most one Read at a time, because a Read may hang.
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

var errLate = errors.New("source call timed out, still waiting for the call to return")

// Read returns one report with the results of all sources that respond. If no source responds, it returns an error, and
// the report contains at most a field page. The report of a late source is returned by the next Read. The late report
// is still correct, because each reading contains its own time.
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

var errNone = errors.New("no GPU of a supported vendor")

// needed returns the members to read. It removes the stages of all other members.
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

// add drops a board that another source has already reported.
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
	report.Opening = append(report.Opening, more.Opening...)
	report.Lost = append(report.Lost, more.Lost...)
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
