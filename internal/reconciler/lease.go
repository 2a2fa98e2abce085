package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

type election struct {
	lease Lease
	log   *slog.Logger
	// leading is set while this replica is the leader. settled is set after this replica has observed that some replica
	// is the leader.
	leading, settled atomic.Bool
}

// Run calls the function term each time this replica acquires the Lease, until the context ends or the function returns
// an error.
func (e *election) Run(ctx context.Context, kube kubernetes.Interface, term func(context.Context) error) error {
	if !e.lease.Elect {
		return e.term(ctx, ctx, term)
	}
	for ctx.Err() == nil {
		if err := e.stand(ctx, kube, term); err != nil {
			return err
		}
	}
	return nil
}

// stand waits for the Lease and calls term once. The elector's context ends later than ctx, because the replica must
// hold the Lease until the last write of term. Then stand releases the Lease.
func (e *election) stand(ctx context.Context, kube kubernetes.Interface, term func(context.Context) error) error {
	held, drop := context.WithCancel(context.WithoutCancel(ctx))
	defer drop()
	tenure, end := context.WithCancel(held)
	defer end()
	lock := newLock(e.lease, kube, end)
	defer lock.release(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(e.config(lock, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(lead context.Context) {
			defer drop()
			defer context.AfterFunc(lead, end)()
			defer context.AfterFunc(ctx, end)()
			ended <- e.term(tenure, ctx, term)
		},
		OnStoppedLeading: func() {},
		OnNewLeader:      e.follow,
	}))
	if err != nil {
		return fmt.Errorf("leader election: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		if !e.leading.Load() {
			drop()
		}
	})()
	elector.Run(held)
	if held.Err() == nil {
		return <-ended // the Lease was lost and the term is ending
	}
	select {
	case err := <-ended:
		return err
	default:
		return nil // this replica did not become the leader
	}
}

// term calls the function unless the program's context has ended. leading stays set until the function returns.
func (e *election) term(ctx, program context.Context, term func(context.Context) error) error {
	e.leading.Store(true)
	defer e.leading.Store(false)
	if program.Err() != nil {
		return nil
	}
	e.settled.Store(true)
	e.log.Info("leading")
	defer e.log.Info("lost leadership")
	return term(ctx)
}

func (e *election) follow(identity string) {
	e.settled.Store(true)
	if identity != e.lease.Identity {
		e.log.Info("following", "leader", identity)
	}
}

func (e *election) config(lock resourcelock.Interface, callbacks leaderelection.LeaderCallbacks) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock:          lock,
		LeaseDuration: e.lease.Duration,
		RenewDeadline: e.lease.Duration * 2 / 3,
		RetryPeriod:   max(e.lease.Duration/8, 50*time.Millisecond),
		Callbacks:     callbacks,
		Name:          e.lease.Name,
	}
}
