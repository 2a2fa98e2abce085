package podmapper

import (
	"context"
	"time"

	"github.com/gpuledger/gpuledger/internal/lane"
)

// tickTimeout is the maximum time for which a tick waits for the disk. The result of a longer read is used at a later
// tick.
const tickTimeout = 250 * time.Millisecond

// A disk is a lock for reads of the log directories. The lock is held while the channel contains an element. A read can
// block permanently and cannot be cancelled, so each read runs in its own goroutine.
type disk chan struct{}

// runInTurn waits for the lock and runs work. It returns false if ctx ends first.
func runInTurn[T any](ctx context.Context, d disk, work func() T) (v T, ok bool) {
	select {
	case d <- struct{}{}:
		return runLocked(ctx, d, work)
	case <-ctx.Done():
		return v, false
	}
}

// tryRun runs work with the timeout tickTimeout, unless another read is in progress.
func tryRun[T any](d disk, work func() T) (v T, ok bool) {
	ctx, cancel := context.WithTimeout(context.Background(), tickTimeout)
	defer cancel()
	select {
	case d <- struct{}{}:
		return runLocked(ctx, d, work)
	default:
		return v, false
	}
}

// runLocked unlocks d when work returns, even after ctx has ended. The caller must have locked d.
func runLocked[T any](ctx context.Context, d disk, work func() T) (T, bool) {
	return lane.Run(ctx, func() T {
		defer func() { <-d }()
		return work()
	})
}
