package reconciler

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the Lease, with a timer that starts at the last renewal. The elector gives up only when
// its own request returns, so with a hanging API server a term could outlast the Lease.
type lock struct {
	resourcelock.Interface
	// expiry ends the term unless a renewal resets it.
	expiry *time.Timer
	lasts  time.Duration
}

// newLock returns the lock of one term. It calls end two thirds of the Lease's duration after
// the start of the last successful renewal; the last third is for writes in flight.
func newLock(l Lease, kube kubernetes.Interface, end func()) *lock {
	k := &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
			Client:     kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		lasts:  l.Duration.Truncate(time.Second) * 2 / 3, // the field of the Lease has whole seconds
		expiry: time.AfterFunc(time.Hour, end),
	}
	k.expiry.Stop() // until the term begins
	return k
}

// Create implements [resourcelock.Interface].
func (k *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return k.renewal(func() error { return k.Interface.Create(ctx, r) })
}

// Update implements [resourcelock.Interface].
func (k *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return k.renewal(func() error { return k.Interface.Update(ctx, r) })
}

// renewal measures the time from the moment before the request, because other replicas measure it
// from the moment at which they see the effect of the request.
func (k *lock) renewal(do func() error) error {
	asked := time.Now()
	err := do()
	if err == nil {
		k.expiry.Reset(k.lasts - time.Since(asked))
	}
	return err
}

// release releases the Lease if this replica holds it. It is called after the elector has returned
// and the term has ended. If it fails, the other replicas wait until the Lease expires.
func (k *lock) release(ctx context.Context) {
	defer k.expiry.Stop()
	ctx, cancel := context.WithTimeout(ctx, k.lasts/2)
	defer cancel()
	old, _, err := k.Get(ctx)
	if err != nil || old.HolderIdentity != k.Identity() {
		return
	}
	now := metav1.Now()
	_ = k.Interface.Update(ctx, resourcelock.LeaderElectionRecord{
		LeaderTransitions: old.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
	})
}
