package archive

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/prometheus/common/version"
	"golang.org/x/sync/errgroup"

	"github.com/gpuledger/gpuledger/internal/event"
	"github.com/gpuledger/gpuledger/internal/serve"
)

const (
	// If --from is not set, the archive reads the hours of this period at its start. It reads the hours of this period
	// again each day.
	lookback = 48 * time.Hour
	// maxJitter spreads the start times of replicas. Most replicas then find that another replica has already archived
	// the hour.
	maxJitter = 2 * time.Minute
	// After a failure of the sink or the store, the next attempt follows after minDelay. The delay doubles with each
	// failure, up to maxDelay.
	minDelay, maxDelay = 10 * time.Second, 5 * time.Minute
)

// Run archives each hour some minutes after its end, and serves metrics, until the context ends. If the store or a sink
// fails, Run tries again later.
func Run(ctx context.Context, c Config, log *slog.Logger) error {
	log.Info("starting", "version", version.Version, "revision", version.GetRevision())
	a, err := newArchive(c, log)
	if err != nil {
		return err
	}
	server := serve.New(c.Serve, log)
	if c.Events.Receive {
		a.receiver = newReceiver(c, log)
		server.Receive(event.Path)
	}
	if err := a.openSite(&c, server); err != nil {
		return err
	}
	handler, err := a.handler(server.Collector())
	if err != nil {
		return err
	}
	pusher, err := a.newPusher(&c, log)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return server.Run(ctx, handler) })
	if a.receiver != nil {
		g.Go(func() error { return a.receiver.Run(ctx) })
	}
	if pusher != nil {
		g.Go(func() error { return pusher.Run(ctx) })
	}
	late := settle + rand.N(maxJitter)
	for _, f := range a.filers {
		g.Go(func() error { f.run(ctx, late); return nil })
	}
	return g.Wait()
}

// run reads an hour only when the duration late has passed since its end.
func (f *filer) run(ctx context.Context, late time.Duration) {
	defer f.close()
	next := f.config.From.Time
	if next.IsZero() {
		next = f.now().Add(-lookback)
	}
	next = next.UTC().Truncate(time.Hour)
	var delay time.Duration
	for first := true; ; first = false {
		last := f.now().Add(-late).UTC().Truncate(time.Hour).Add(-time.Hour)
		next = f.plan(next, last, !first)
		err := f.round(ctx)
		if ctx.Err() != nil {
			return
		}
		f.push()
		wait := f.due(next.Add(time.Hour + late)).Sub(f.now())
		if delay = f.after(err, delay); delay > 0 {
			wait = delay
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// plan adds jobs for the hours from next to last, and returns the hour after last. If again is set, it also adds jobs
// for the hours of the lookback period, once a day.
func (f *filer) plan(next, last time.Time, again bool) time.Time {
	now := f.now()
	for hour := next; again && !hour.After(last); hour = hour.Add(time.Hour) {
		if hour.Hour() == 23 {
			f.addAgain(hour.Add(time.Hour-lookback), next, now)
		}
	}
	f.add(next, last, now)
	if last.Before(next) {
		return next
	}
	return last.Add(time.Hour)
}

func (f *filer) addAgain(from, until, now time.Time) {
	for hour := from; hour.Before(until); hour = hour.Add(time.Hour) {
		if !slices.ContainsFunc(f.jobs, func(j *job) bool { return j.hour.Equal(hour) }) {
			f.jobs = append(f.jobs, &job{hour: hour, again: true, due: now})
		}
	}
}

func (f *filer) due(next time.Time) time.Time {
	for _, j := range f.jobs {
		if j.due.Before(next) {
			next = j.due
		}
	}
	return next
}

// after returns the delay before the next round. It returns 0 if nothing failed.
func (f *filer) after(err error, delay time.Duration) time.Duration {
	sink := errors.As(err, new(*sinkError))
	if !sink {
		f.refusals.store(err)
	}
	if err == nil {
		return 0
	}
	return backoff(delay, minDelay, maxDelay)
}
