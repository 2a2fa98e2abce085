package reconciler

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is the Lease, and a watch over its last renewal. The elector gives up a
// RenewDeadline after it began to try, and only when a request of its own returns; an
// API server that hangs could keep a term going after another one has begun.
type lock struct {
	resourcelock.Interface
	// expiry ends the term, unless it is put off by a renewal.
	expiry *time.Timer
	lasts  time.Duration
}

// newLock returns the lock of one term. It calls end two thirds of the Lease's duration
// after the last renewal was asked for; the last third is for the writes in flight.
func newLock(l Lease, kube kubernetes.Interface, end func()) *lock {
	k := &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
			Client:     kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		lasts:  l.Duration.Truncate(time.Second) * 2 / 3, // the Lease's field has whole seconds
		expiry: time.AfterFunc(time.Hour, end),
	}
	k.expiry.Stop() // until there is a term
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

// renewal counts from before the request: others count from when they see its effect.
func (k *lock) renewal(do func() error) error {
	asked := time.Now()
	err := do()
	if err == nil {
		k.expiry.Reset(k.lasts - time.Since(asked))
	}
	return err
}

// release lets go of the Lease, if it is this replica's. It is called after the elector
// has returned and the term has ended. If it cannot, the others wait the Lease out.
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
