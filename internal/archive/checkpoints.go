package archive

import (
	"context"
	"errors"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// publish publishes the checkpoint of the chain of each cluster that changed since the last call. A
// later checkpoint covers the earlier checkpoints, so the next round covers a checkpoint that could
// not be published.
func (f *filer) publish(ctx context.Context) {
	c, ok := f.sink.(chained)
	if !ok || f.signer == nil || ctx.Err() != nil {
		return
	}
	for cluster, places := range f.linked {
		left, err := f.publishOne(ctx, c, cluster, places)
		if err != nil {
			f.log.Warn("cannot publish the checkpoint of a chain", "sink", f.Name, "cluster", cluster, "err", err)
		}
		if f.linked[cluster] = left; len(left) == 0 {
			delete(f.linked, cluster)
		}
	}
}

// publishOne publishes the checkpoint of a cluster to places. It returns the places that failed. They do not delay the other
// places.
func (f *filer) publishOne(ctx context.Context, c chained, cluster string, places []string) (left []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	head, err := c.Head(ctx, cluster)
	if err != nil {
		return places, err
	}
	for _, to := range places {
		if failed := chain.Publish(ctx, to, f.config.Chain.HTTPConfig, chain.CheckpointOf(f.Name, head)); failed != nil {
			left, err = append(left, to), errors.Join(err, failed)
		}
	}
	return left, err
}
