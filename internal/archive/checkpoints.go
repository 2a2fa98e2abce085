package archive

import (
	"context"

	"github.com/gpuledger/gpuledger/internal/archive/chain"
)

// publish publishes the checkpoint of the chain of each cluster that changed since the last call. A
// later checkpoint covers the earlier ones, so what fails is published with the next round.
func (f *filer) publish(ctx context.Context) {
	c, ok := f.sink.(chained)
	if !ok || f.signer == nil || ctx.Err() != nil {
		return
	}
	for cluster := range f.linked {
		if err := f.publishOne(ctx, c, cluster); err != nil {
			f.log.Warn("cannot publish the checkpoint of a chain", "sink", f.Name, "cluster", cluster, "err", err)
			continue
		}
		delete(f.linked, cluster)
	}
}

func (f *filer) publishOne(ctx context.Context, c chained, cluster string) error {
	ctx, cancel := context.WithTimeout(ctx, sinkTimeout)
	defer cancel()
	head, err := c.Head(ctx, cluster)
	if err != nil {
		return err
	}
	for _, to := range f.config.Chain.Publish {
		if err := chain.Publish(ctx, to, chain.CheckpointOf(f.Name, head)); err != nil {
			return err
		}
	}
	return nil
}
