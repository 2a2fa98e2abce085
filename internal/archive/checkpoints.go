package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// publish publishes the last entry of each changed chain as a checkpoint. If this fails, a later round publishes a
// checkpoint that also covers this entry.
func (f *filer) publish(ctx context.Context) {
	c, ok := f.sink.(chained)
	if !ok || f.signer == nil || ctx.Err() != nil {
		return
	}
	for cluster, places := range f.linked {
		left, err := publisher{f.config.Chain, f.Name, c}.head(ctx, cluster, places)
		if err != nil {
			f.log.Warn("cannot publish the checkpoint of a chain", "sink", f.Name, "cluster", cluster, "err", err)
		}
		if f.linked[cluster] = left; len(left) == 0 {
			delete(f.linked, cluster)
		}
	}
}

type publisher struct {
	config chain.Config
	sink   string
	chained
}

// head publishes the checkpoint of a cluster, and returns the places that failed. The other places still receive the
// checkpoint.
func (p publisher) head(ctx context.Context, cluster string, places []string) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	head, err := p.Head(ctx, cluster)
	if err != nil {
		return places, err
	}
	for _, to := range places {
		if failed := chain.Publish(ctx, to, p.config.HTTPConfig, chain.CheckpointOf(p.config.SinkName(p.sink), head)); failed != nil {
			left, err = append(left, to), errors.Join(err, failed)
		}
	}
	return left, err
}

func (p publisher) all(ctx context.Context, clusters []string) (failed error) {
	for _, cluster := range clusters {
		if _, err := p.head(ctx, cluster, p.config.Publish); err != nil {
			failed = errors.Join(failed, fmt.Errorf("the hours were changed, but the checkpoint of cluster %s was not published; the next filed hour publishes a new checkpoint: %w", cluster, err))
		}
	}
	return failed
}
