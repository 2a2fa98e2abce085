package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// election makes one replica of many the leader.
type election struct {
	lease Lease
	log   *slog.Logger
	// leading is true during a term, settled once some replica is known to lead.
	leading, settled atomic.Bool
}

// Run runs one term after the other, each for as long as this replica holds the
// Lease, until the context ends or a term fails.
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

// stand waits for the Lease and runs one term. The elector's context outlives ctx:
// the Lease is released only after the term has ended, and with it the last write.
func (e *election) stand(ctx context.Context, kube kubernetes.Interface, term func(context.Context) error) error {
	held, release := context.WithCancel(context.WithoutCancel(ctx))
	defer release()
	ended := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(e.config(kube, leaderelection.LeaderCallbacks{
		OnStartedLeading: func(lead context.Context) {
			defer release()
			both, cancel := context.WithCancel(lead)
			defer cancel()
			defer context.AfterFunc(ctx, cancel)()
			ended <- e.term(both, ctx, term)
		},
		OnStoppedLeading: func() {},
		OnNewLeader:      e.follow,
	}))
	if err != nil {
		return fmt.Errorf("stand for the lease: %w", err)
	}
	defer context.AfterFunc(ctx, func() {
		if !e.leading.Load() {
			release()
		}
	})()
	elector.Run(held)
	if held.Err() == nil {
		return <-ended // the Lease was lost, and the term is on its way out
	}
	select {
	case err := <-ended:
		return err
	default:
		return nil // there was no term
	}
}

// term runs one term in ctx, unless the program's context has ended by now. The order
// matters: who sees that nobody leads, after it ended, knows that nobody will.
func (e *election) term(ctx, program context.Context, term func(context.Context) error) error {
	e.leading.Store(true)
	defer e.leading.Store(false)
	if program.Err() != nil {
		return nil
	}
	e.settled.Store(true)
	e.log.Info("leading")
	defer e.log.Info("leading no more")
	return term(ctx)
}

func (e *election) follow(identity string) {
	e.settled.Store(true)
	if identity != e.lease.Identity {
		e.log.Info("following", "leader", identity)
	}
}

func (e *election) config(kube kubernetes.Interface, callbacks leaderelection.LeaderCallbacks) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: e.lease.Namespace, Name: e.lease.Name},
			Client:     kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: e.lease.Identity},
		},
		LeaseDuration:   e.lease.Duration,
		RenewDeadline:   e.lease.Duration * 2 / 3,
		RetryPeriod:     max(e.lease.Duration/8, 50*time.Millisecond),
		ReleaseOnCancel: true,
		Callbacks:       callbacks,
		Name:            e.lease.Name,
	}
}
