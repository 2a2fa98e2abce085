package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/manifest"
)

func (f *filer) openSink(ctx context.Context) error {
	if f.sink != nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	s, err := f.Open(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", f.Label, err)
	}
	if c, ok := s.(chained); ok {
		c.SignWith(f.signer)
	}
	f.sink = s
	return f.recall(ctx)
}

// recall reads the clusters from the manifest. The filer therefore expects a cluster that the store lost before this
// program started.
func (f *filer) recall(ctx context.Context) error {
	l, ok := f.sink.(lister)
	if !ok {
		return nil
	}
	since := f.now()
	if from := f.config.From; !from.IsZero() && from.Before(since) {
		since = from.Time
	}
	clusters, err := l.Clusters(ctx, since.Add(-maxAbsence))
	if err != nil {
		return fmt.Errorf("%s: clusters: %w", f.Label, err)
	}
	for cluster, span := range clusters {
		if only := f.config.Store.Cluster; only == "" || cluster == only {
			f.seen[cluster] = f.seen[cluster].Extend(span.First).Extend(span.Last)
		}
	}
	return nil
}

// fail closes the sink, and logs a failure once. If another replica uses the sink, this is a warning and not an error.
func (f *filer) fail(ctx context.Context, err error) error {
	f.close()
	if ctx.Err() != nil {
		return ctx.Err()
	}
	f.failed.Store(true)
	f.metrics.up.WithLabelValues(f.Name).Set(0)
	f.waits = errors.Is(err, files.ErrLocked) || errors.Is(err, manifest.ErrLocked)
	if text := err.Error(); text != f.said {
		f.said = text
		if f.waits {
			f.log.Warn("cannot use a sink, because another program has locked it", "sink", f.Name, "err", err)
		} else {
			f.log.Error("sink failed", "sink", f.Name, "err", err)
		}
	}
	return &sinkError{err}
}

func (f *filer) works() {
	f.metrics.up.WithLabelValues(f.Name).Set(1)
	f.waits = false
	if f.said != "" {
		f.said = ""
		f.log.Info("sink works again", "sink", f.Name)
	}
}

func (f *filer) close() {
	if f.sink == nil {
		return
	}
	if err := f.sink.Close(); err != nil {
		f.log.Debug("cannot close the sink", "sink", f.Name, "err", err)
	}
	f.sink = nil
}
