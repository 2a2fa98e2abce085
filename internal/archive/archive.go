// Package archive stores the record of GPU fleets (docs/history.md) as tables that SQL and spreadsheets can read. It
// reads the raw samples of one hour and one cluster from a Prometheus-compatible store, computes the rows of this hour,
// and replaces the hour's rows in each sink. A run can therefore be repeated. In this package, "an hour" means these
// rows; the archive refuses an hour if its samples may be incomplete.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
	"github.com/gpuledger/gpuledger/internal/archive/events"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/archive/web"
)

// settle is the delay between the end of an hour and the reading of its samples. A store receives samples late, or does
// not return the newest samples.
const settle = 5 * time.Minute

// ErrIncomplete means that a sink failed, or that hours were refused because their samples may be incomplete.
var ErrIncomplete = errors.New("not all hours were filed")

// Once archives all hours of the range that are not yet archived. If a part of them cannot be archived, it archives the
// other hours and returns ErrIncomplete.
func Once(ctx context.Context, c Config, now time.Time, log *slog.Logger) error {
	a, err := newArchive(c, log)
	if err != nil {
		return err
	}
	defer a.store.Close()
	began := time.Now()
	a.now = func() time.Time { return now }
	first, last := c.span(now)
	g, ctx := errgroup.WithContext(ctx)
	for _, f := range a.filers {
		f.add(first, last, now)
		g.Go(func() error { return f.once(ctx) })
	}
	err = g.Wait()
	for _, f := range a.filers {
		f.summarize(began)
	}
	switch {
	case err != nil:
		return err
	case a.failed.Load():
		return fmt.Errorf("%w, for the reasons above: run the command again", ErrIncomplete)
	case !a.found.Load():
		return fmt.Errorf("%s contains no boards from %s to %s: check that it receives samples from the job gpuledger-record", a.store.URL(), first.Format(time.RFC3339), last.Add(time.Hour).Format(time.RFC3339))
	}
	return nil
}

// span returns the first and the last hour to archive, both inclusive. The last hour has ended.
func (c *Config) span(now time.Time) (first, last time.Time) {
	end := now.Add(-settle)
	if !c.Until.IsZero() && c.Until.Before(end) {
		end = c.Until.Time
	}
	last = end.UTC().Truncate(time.Hour).Add(-time.Hour)
	first = last
	if !c.From.IsZero() {
		first = c.From.UTC().Truncate(time.Hour)
	}
	return first, last
}

type archive struct {
	config   Config
	store    *store.Store
	filers   []*filer
	receiver *events.Receiver // nil if no events are received
	site     *web.Site        // nil if no pages are served
	signer   *chain.Signer    // nil if chains are not signed
	metrics  *metrics
	refusals *refusals
	progress *progress
	now      func() time.Time
	log      *slog.Logger

	found, failed atomic.Bool // found is set if an hour is filed; failed is set if an hour was refused or a sink failed

	// turn admits one reader at a time, because reading an hour takes much memory.
	turn      chan struct{}
	latest    lastHour
	sequences []*sequence
}

func newArchive(c Config, log *slog.Logger) (*archive, error) {
	a := &archive{
		config: c, metrics: newMetrics(), progress: &progress{show: c.Progress}, now: time.Now, log: log,
		turn: make(chan struct{}, 1),
	}
	a.refusals = newRefusals(a.metrics.refused, log)
	c.Store.Done = a.metrics.requested
	var err error
	if a.store, err = store.New(c.Store); err != nil {
		return nil, err
	}
	if a.signer, err = c.Chain.Signer(); err != nil {
		return nil, err
	}
	if c.unset {
		log.Warn("no sink is set: filing in an SQLite database on this machine; set --sqlite to choose another file", "file", c.SQLite)
	}
	for _, p := range c.places {
		a.filers = append(a.filers, newFiler(a, p))
	}
	return a, nil
}

type lastHour struct {
	key  requestKey
	hour table.Hour
	err  error
	at   time.Time
}

// Sinks usually need the rows of an hour at about the same time. For this time, they share the rows of the last hour.
const readAgain = 30 * time.Second

// If the samples may be incomplete, hour returns a refusal as its error.
func (a *archive) hour(ctx context.Context, req request) (table.Hour, error) {
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return table.Hour{}, ctx.Err()
	}
	if last := &a.latest; last.key == req.key() && time.Since(last.at) < readAgain {
		return last.hour, last.err
	}
	h, err := a.read(ctx, req)
	if len(a.filers) > 1 && !errors.As(err, new(*sinkError)) {
		a.latest = lastHour{req.key(), h, err, time.Now()}
	}
	return h, err
}

func (a *archive) closed(hour time.Time) bool {
	end := time.Date(hour.Year(), hour.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	return a.config.CloseAfter > 0 && !a.now().Before(end.Add(a.config.CloseAfter))
}
