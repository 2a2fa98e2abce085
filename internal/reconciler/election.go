package reconciler

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

// election ensures that only one replica at a time is the leader.
type election struct {
	lease Lease
	log   *slog.Logger
	// leading is set while this replica is the leader. settled is set after this replica has observed that some replica
	// is the leader.
	leading, settled atomic.Bool
}

// Run calls the function term each time this replica acquires the Lease, until the context ends or the function returns
// an error.
func (e *election) Run(ctx context.Context, kube apiserver.Client, term func(context.Context) error) error {
	if !e.lease.Elect {
		return e.term(ctx, term)
	}
	lock := newLock(e.lease, kube.Leases(e.lease.Namespace), e.log)
	for ctx.Err() == nil {
		if err := e.stand(ctx, lock, term); err != nil {
			return err
		}
	}
	return nil
}

// stand waits for the Lease and calls term once. The context of term ends when this replica may have lost the Lease.
// The replica renews the Lease until term returns, and then releases the Lease.
func (e *election) stand(ctx context.Context, lock *lock, term func(context.Context) error) error {
	defer lock.release(context.WithoutCancel(ctx)) // a cancelled request may still have acquired the Lease
	if !e.acquire(ctx, lock) {
		return nil
	}
	tenure, end := context.WithCancel(ctx)
	defer end()
	held, drop := context.WithCancel(context.WithoutCancel(ctx))
	var renewals sync.WaitGroup
	defer renewals.Wait()
	defer drop()
	renewals.Go(func() { lock.keep(held, tenure, end) })
	return e.term(tenure, term)
}

// acquire waits for the Lease. It returns false if the context ends before.
func (e *election) acquire(ctx context.Context, lock *lock) bool {
	following, logged := "", ""
	for ctx.Err() == nil {
		holder, err := lock.take(ctx)
		switch {
		case apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err): // another replica was faster
		case err != nil:
			if err.Error() != logged && ctx.Err() == nil {
				logged = err.Error()
				e.log.Warn("cannot acquire the Lease, will retry", "err", err)
			}
		case holder != e.lease.Identity:
			logged = ""
			if holder != following {
				following = holder
				e.settled.Store(true)
				e.log.Info("following", "leader", holder)
			}
		case time.Now().Before(lock.expires()): // after a slow response, the Lease may be about to expire
			return true
		}
		pause(ctx, wait.Jitter(lock.retry, 1))
	}
	return false
}

// term calls the function unless the context has ended. leading stays set until the function returns.
func (e *election) term(ctx context.Context, term func(context.Context) error) error {
	if ctx.Err() != nil {
		return nil
	}
	e.leading.Store(true)
	defer e.leading.Store(false)
	e.settled.Store(true)
	e.log.Info("leading")
	defer e.log.Info("lost leadership")
	return term(ctx)
}

// pause returns early if the context ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
