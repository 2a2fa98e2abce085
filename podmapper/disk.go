package podmapper

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/lane"
)

// glanceTimeout is how long a tick waits for the disk. What takes longer is there at one
// of the next ticks.
const glanceTimeout = 250 * time.Millisecond

// A disk holds an element while somebody reads the log directories. That may take for
// ever, and a read cannot be cancelled: so it is done in a goroutine of its own, and by
// one at a time.
type disk chan struct{}

// wait does one piece of work in its turn, and returns its answer if it comes before ctx
// ends.
func wait[T any](ctx context.Context, d disk, work func() T) (v T, ok bool) {
	select {
	case d <- struct{}{}:
		return run(ctx, d, work)
	case <-ctx.Done():
		return v, false
	}
}

// glance is wait for a tick: it does nothing while somebody reads already.
func glance[T any](d disk, work func() T) (v T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), glanceTimeout)
	defer cancel()
	select {
	case d <- struct{}{}:
		return run(ctx, d, work)
	default:
		return v, false
	}
}

// run does the work whose turn it is.
func run[T any](ctx context.Context, d disk, work func() T) (T, bool) {
	return lane.Run(ctx, func() T {
		defer func() { <-d }()
		return work()
	})
}
