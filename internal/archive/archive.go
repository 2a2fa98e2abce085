// Package archive files the record of GPU fleets (docs/history.md) where SQL and spreadsheets can
// read it. It asks a Prometheus-compatible store for the raw samples of each cluster and hour,
// folds them, and replaces that hour in the archive, so a run can be repeated at any time.
package archive

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/store"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// settle is the time after the end of an hour at which it is read: stores receive samples late, and
// hide the newest ones.
const settle = 5 * time.Minute

// ErrIncomplete means that hours were refused, because their samples may be incomplete, or that a
// sink failed.
var ErrIncomplete = errors.New("not all hours were filed")

// Once files all hours of the range that are not filed. It returns ErrIncomplete if some hours
// could not be filed, after all others.
func Once(ctx context.Context, c Config, now time.Time, log *slog.Logger) error {
	source, err := store.New(c.Store)
	if err != nil {
		return err
	}
	a := archive{config: c, store: source, sinks: make(map[string]sink), closings: make(map[string]*store.Closings), now: now, log: log}
	defer a.close()
	if err := a.open(ctx); err != nil {
		return err
	}
	first, last := c.span(now)
	found := false
	for hour := first; !hour.After(last) && len(a.sinks) > 0; hour = hour.Add(time.Hour) {
		clusters, err := source.Clusters(ctx, hour)
		if err != nil {
			return fmt.Errorf("clusters of %s: %w", hour.Format(time.RFC3339), err)
		}
		for _, cluster := range clusters {
			found = true
			if err := a.file(ctx, cluster, hour); err != nil {
				return fmt.Errorf("cluster %s, hour %s: %w", cluster, hour.Format(time.RFC3339), err)
			}
		}
	}
	switch {
	case !found:
		return fmt.Errorf("%s has no boards from %s to %s: check that it receives the job gpuledger-record", c.Store.URL, first.Format(time.RFC3339), last.Add(time.Hour).Format(time.RFC3339))
	case a.failed:
		return fmt.Errorf("%w, for the reasons above: run the command again", ErrIncomplete)
	}
	return nil
}

// span returns the first and the last hour to file. Only full hours are filed.
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

// archive files hours.
type archive struct {
	config Config
	store  *store.Store
	sinks  map[string]sink // by the name of their flag
	failed bool            // an hour was refused, or a sink failed
	// closings are the closing values of the last hour that was read, by cluster.
	closings map[string]*store.Closings
	now      time.Time
	log      *slog.Logger
}

// open opens the sinks that the flags name.
func (a *archive) open(ctx context.Context) error {
	for _, d := range destinations {
		if !d.isSet(&a.config) {
			continue
		}
		s, err := d.open(ctx, &a.config)
		if err != nil {
			return fmt.Errorf("--%s: %w", d.flag, err)
		}
		a.sinks[d.flag] = s
	}
	return nil
}

func (a *archive) close() {
	for name, s := range a.sinks {
		if err := s.Close(); err != nil {
			a.log.Error("cannot close the sink", "sink", name, "err", err)
		}
	}
}

// file files an hour of a cluster in the sinks that lack it. A sink that fails is not used again;
// the error is that of the store.
func (a *archive) file(ctx context.Context, cluster string, hour time.Time) error {
	filed := make(map[string]table.Filed) // by sink
	for name, s := range a.sinks {
		found, err := s.Filed(ctx, cluster, hour)
		switch {
		case err != nil:
			a.fail(name, err)
		case found == table.Filed{} || a.config.Again:
			filed[name] = found
		}
	}
	if len(filed) == 0 {
		return ctx.Err()
	}
	began := time.Now()
	h, err := a.read(ctx, cluster, hour)
	if errors.As(err, new(*refusal)) {
		a.failed = true
		a.log.Warn("hour refused", "cluster", cluster, "hour", hour, "err", err)
		return nil
	}
	if err != nil {
		return err
	}
	for name, before := range filed {
		if before.Digest == h.Digest {
			continue
		}
		if err := a.write(ctx, a.sinks[name], h, before); err != nil {
			a.fail(name, err)
			continue
		}
		a.log.Info("hour filed", "sink", name, "cluster", cluster, "hour", hour, "revision", before.Revision+1, "gpus", len(h.GPUs), "charges", len(h.Charges),
			"seconds", math.Round(time.Since(began).Seconds()*1000)/1000)
	}
	return ctx.Err()
}

// write writes an hour to a sink. The hours of a closed month are not replaced, but corrected.
func (a *archive) write(ctx context.Context, s sink, h table.Hour, before table.Filed) error {
	h.Revision = before.Revision + 1
	c, ok := s.(corrector)
	if !ok || before == (table.Filed{}) || !a.closed(h.Start) {
		return s.Replace(ctx, &h)
	}
	charges, err := c.Charges(ctx, h.Cluster, h.Start)
	if err != nil {
		return err
	}
	h.State, h.Corrections = table.Corrected, fold.Difference(charges, h.Charges)
	return c.Correct(ctx, &h)
}

// closed reports whether the month of an hour is closed.
func (a *archive) closed(hour time.Time) bool {
	end := time.Date(hour.Year(), hour.Month()+1, 1, 0, 0, 0, 0, time.UTC)
	return a.config.CloseAfter > 0 && !a.now.Before(end.Add(a.config.CloseAfter))
}

// fail stops the use of a sink.
func (a *archive) fail(name string, err error) {
	a.failed = true
	a.log.Error("sink failed", "sink", name, "err", err)
	if err := a.sinks[name].Close(); err != nil {
		a.log.Debug("cannot close the sink", "sink", name, "err", err)
	}
	delete(a.sinks, name)
}

// read reads and folds an hour. The error is a refusal if the samples may be incomplete.
func (a *archive) read(ctx context.Context, cluster string, hour time.Time) (h table.Hour, err error) {
	record, err := a.store.Read(ctx, cluster, hour, a.closings[cluster])
	if err != nil {
		return h, err
	}
	a.closings[cluster] = record.Closings()
	after, err := a.store.SampledSince(ctx, cluster, hour.Add(time.Hour), a.now)
	if err != nil {
		return h, err
	}
	silent, err := check(record, gates{sampledAfter: after, now: a.now, acceptGaps: a.config.AcceptGaps})
	if err != nil {
		return h, err
	}
	record.TeamLabel = a.config.Team
	folded, err := fold.Fold(record.Input)
	if err != nil {
		return h, &refusal{err}
	}
	h = table.Hour{Hour: folded, State: table.Complete, SilentNodes: len(silent), Filed: table.Filed{Digest: table.Digest(folded)}}
	if tooSilent(silent, record) {
		h.State = table.Gaps
	}
	return h, nil
}
