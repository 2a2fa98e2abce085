package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/moves"
	"github.com/gpuledger/gpuledger/internal/archive/permanent"
	"github.com/gpuledger/gpuledger/internal/archive/sinks"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

const (
	// sinkTimeout limits each call of a sink.
	sinkTimeout = 10 * time.Minute
	// An hour that was refused is tried again after minJobDelay. The delay doubles with each attempt, up to
	// maxJobDelay.
	minJobDelay, maxJobDelay = time.Minute, 30 * time.Minute
)

type job struct {
	hour time.Time
	// If again is set, the hour is read even if it is already archived.
	again bool
	// due is the earliest time of the next attempt. delay is the time between the last two attempts.
	due   time.Time
	delay time.Duration
	done  bool
}

func (j *job) later(now time.Time) {
	j.delay = backoff(j.delay, minJobDelay, maxJobDelay)
	j.due = now.Add(j.delay)
}

func backoff(delay, shortest, longest time.Duration) time.Duration {
	return min(max(2*delay, shortest), longest)
}

// A filer writes the rows of each hour to one sink. Each sink has its own filer in its own goroutine, so a slow sink
// does not delay the other sinks.
type filer struct {
	*archive
	sinks.Place
	sink sink // nil while the sink is not open
	// pusher sends the events of the boards in this sink. It is nil if no events are sent. fresh is set if rows changed
	// since the last push.
	pusher *moves.Pusher
	fresh  bool
	// linked contains the clusters whose hash chain changed. The value lists the places that still need a checkpoint of
	// this change.
	linked map[string][]string
	jobs   []*job
	// seen contains the first and last hour in which each cluster had boards. newest contains the newest archived hour
	// of each cluster.
	seen    map[string]table.Span
	newest  map[string]time.Time
	located located
	said    string // last failure of the sink that was logged
	waits   bool   // the filer waits for another replica that uses the sink
	left    int    // number of hours that are not yet filed
	summary summary
}

func newFiler(a *archive, of sinks.Place) *filer {
	f := &filer{archive: a, Place: of, fresh: true, linked: make(map[string][]string), seen: make(map[string]table.Span), newest: make(map[string]time.Time)}
	a.metrics.born(f.Name)
	return f
}

type sinkError struct{ error }

func (e *sinkError) Unwrap() error { return e.error }

func (f *filer) add(first, last, now time.Time) {
	for hour := first; !hour.After(last); hour = hour.Add(time.Hour) {
		f.jobs = append(f.jobs, &job{hour: hour, again: f.config.Again, due: now})
	}
}

// once returns an error of the store. A failure of the sink is already logged.
func (f *filer) once(ctx context.Context) error {
	defer f.close()
	if err := f.round(ctx); !errors.As(err, new(*sinkError)) {
		return err
	}
	return nil // fail has logged the error
}

// round runs the jobs that are due. It ends early if the sink or the store fails. A later round repeats the jobs whose
// hours were refused.
func (f *filer) round(ctx context.Context) error {
	defer func() {
		f.jobs = slices.DeleteFunc(f.jobs, func(j *job) bool { return j.done })
		f.report()
		f.measure(ctx)
		f.publish(ctx)
	}()
	for _, j := range f.jobs {
		if j.due.After(f.now()) {
			continue
		}
		f.report()
		err := f.do(ctx, j)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			j.done = true
		case errors.As(err, new(*sinkError)):
			return err
		case errors.As(err, new(*refusal)):
			j.later(f.now())
		default:
			j.later(f.now())
			return fmt.Errorf("hour %s: %w", j.hour.Format(time.RFC3339), err)
		}
	}
	return nil
}

// do archives one hour of every cluster. A refused cluster does not stop the other clusters.
func (f *filer) do(ctx context.Context, j *job) error {
	if err := f.openSink(ctx); err != nil {
		return f.fail(ctx, err)
	}
	clusters, err := f.clusters(ctx, j.hour)
	if err != nil {
		return fmt.Errorf("clusters: %w", err)
	}
	for _, cluster := range clusters {
		switch e := f.file(ctx, cluster, j); {
		case permanent.Is(e): // retries would delay all later hours
			err = f.refuse(cluster, j.hour, f.rejection(e))
		case errors.As(e, new(*sinkError)):
			return f.fail(ctx, e)
		case errors.As(e, new(*refusal)):
			err = f.refuse(cluster, j.hour, e)
		case e != nil:
			return fmt.Errorf("cluster %s: %w", cluster, e)
		default:
			f.refusals.remove(refusedHour{cluster, j.hour, f.Name})
		}
	}
	f.works()
	if err == nil {
		f.refusals.remove(refusedHour{"", j.hour, f.Name})
	}
	return err
}

// clusters returns the clusters that the store contains for an hour. It adds clusters that had boards before this hour,
// because their samples may be missing.
func (f *filer) clusters(ctx context.Context, hour time.Time) ([]string, error) {
	found, err := f.store.Clusters(ctx, hour)
	if err != nil {
		return nil, err
	}
	for _, cluster := range found {
		f.seen[cluster] = f.seen[cluster].Extend(hour)
	}
	for cluster, seen := range f.seen {
		if !slices.Contains(found, cluster) && seen.First.Before(hour) && hour.Sub(seen.Last) <= maxAbsence {
			found = append(found, cluster)
		}
	}
	slices.Sort(found)
	if only := f.config.Accept; only != "" {
		found = slices.DeleteFunc(found, func(cluster string) bool { return cluster != only })
	}
	return found, nil
}

func (f *filer) rejection(err error) error {
	if of, ok := errors.AsType[*sinkError](err); ok {
		err = of.error
	}
	return &refusal{error: fmt.Errorf("the sink %s rejects the hour: %w", f.Name, err)}
}

func (f *filer) refuse(cluster string, hour time.Time, err error) error {
	f.failed.Store(true)
	f.summary.refuse(err)
	f.refusals.add(refusedHour{cluster, hour, f.Name}, f.newest[cluster], err)
	return err
}

func (f *filer) file(ctx context.Context, cluster string, j *job) error {
	before, err := f.filed(ctx, cluster, j.hour)
	if err != nil {
		return err
	}
	if before.Pruned || before != (table.Filed{}) && !j.again {
		f.skip(cluster, j.hour)
		return nil
	}
	if err := f.checkFiled(ctx, cluster, j.hour, &before); err != nil {
		return &sinkError{err}
	}
	began := time.Now()
	h, err := f.hour(ctx, request{cluster, j.hour, before, f})
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if before.Digest == h.Digest {
		f.skip(cluster, j.hour)
		return nil
	}
	if err := f.checkTwice(ctx, &h); err != nil {
		return err
	}
	switch err := f.write(ctx, h, before); {
	case errors.Is(err, table.ErrPruned): // another program pruned the hour after f.filed read the manifest
		f.skip(cluster, j.hour)
		return nil
	case err != nil:
		return &sinkError{err}
	}
	f.fresh, f.linked[cluster] = true, f.config.Chain.Publish
	f.logFiled(&h, before.Revision+1, time.Since(began))
	f.summary.add(&h)
	f.metrics.filed.WithLabelValues(f.Name).Inc()
	f.has(cluster, j.hour)
	return nil
}

func (f *filer) skip(cluster string, hour time.Time) {
	f.summary.skipped++
	f.has(cluster, hour)
}

func (f *filer) has(cluster string, hour time.Time) {
	f.found.Store(true)
	if hour.After(f.newest[cluster]) {
		f.newest[cluster] = hour
		f.metrics.newest.WithLabelValues(cluster, f.Name).Set(float64(hour.Add(time.Hour).Unix()))
		f.refusals.born(cluster)
	}
}

func (f *filer) filed(ctx context.Context, cluster string, hour time.Time) (table.Filed, error) {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	filed, err := f.sink.Filed(ctx, cluster, hour)
	if err != nil {
		return filed, &sinkError{err}
	}
	return filed, nil
}

// checkFiled clears the digest of an archived hour if the rows of the hour differ from the manifest. The hour is then
// written again.
func (f *filer) checkFiled(ctx context.Context, cluster string, hour time.Time, filed *table.Filed) error {
	c, ok := f.sink.(checker)
	if !ok || *filed == (table.Filed{}) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	intact, err := c.Intact(ctx, cluster, hour)
	if err == nil && !intact {
		f.log.Warn("the rows of an hour differ from the manifest: filing the hour again", "sink", f.Name, "cluster", cluster, "hour", hour)
		filed.Digest = ""
	}
	return err
}

// For this time after a node's last archived hour, samples of the node are still expected.
const maxAbsence = 7 * 24 * time.Hour

func (f *filer) nodes(ctx context.Context, cluster string, from, until time.Time) ([]string, error) {
	r, ok := f.sink.(reader)
	if !ok {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	nodes, err := r.Nodes(ctx, cluster, from, until)
	if err != nil {
		return nil, &sinkError{err}
	}
	return nodes, nil
}

// write replaces the rows of an hour. If the month is closed, it adds corrections instead.
func (f *filer) write(ctx context.Context, h table.Hour, before table.Filed) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	defer f.metrics.spent(stepFile, time.Now())
	h.Revision = before.Revision + 1
	c, ok := f.sink.(corrector)
	if !ok || before == (table.Filed{}) || !f.closed(h.Start) {
		return f.sink.Replace(ctx, &h)
	}
	charges, err := c.Charges(ctx, h.Cluster, h.Start)
	if err != nil {
		return err
	}
	h.State, h.Corrections = table.Corrected, table.Difference(charges, h.Charges)
	return c.Correct(ctx, &h)
}

// report exports the number of hours that are left. If another replica writes the hours, the number is unknown.
func (f *filer) report() {
	if f.waits {
		f.metrics.behind.DeleteLabelValues(f.Name)
		return
	}
	f.left = 0
	for _, j := range f.jobs {
		if !j.done && (!j.again || f.config.Again) {
			f.left++
		}
	}
	f.metrics.behind.WithLabelValues(f.Name).Set(float64(f.left))
	f.progress.update(f.Name, f.left)
}

// If an administrator must create the partitions of a database, measure exports the end of the last partition.
func (f *filer) measure(ctx context.Context) {
	p, ok := f.sink.(partitioned)
	if !ok {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	end, err := p.PartitionsEnd(ctx, f.now())
	switch {
	case err != nil:
		f.log.Debug("cannot read the partitions", "sink", f.Name, "err", err)
	case end.IsZero():
		f.metrics.partitions.DeleteLabelValues(f.Name)
	default:
		f.metrics.partitions.WithLabelValues(f.Name).Set(float64(end.Unix()))
	}
}
