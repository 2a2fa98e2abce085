package reconciler

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// lock is a Lease with a timer that each renewal restarts. client-go's elector gives up only after its own request has
// returned. If the API server hangs, the leader could therefore still write after the Lease has expired.
type lock struct {
	resourcelock.Interface
	// expiry calls end unless a renewal resets it.
	expiry *time.Timer
	lasts  time.Duration
}

// newLock returns a lock that calls end when two thirds of the Lease's duration have passed since the start of the last
// successful renewal. The last third is time for writes in flight to end.
func newLock(l Lease, kube kubernetes.Interface, end func()) *lock {
	k := &lock{
		Interface: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: l.Namespace, Name: l.Name},
			Client:     kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: l.Identity},
		},
		lasts:  l.Duration.Truncate(time.Second) * 2 / 3, // the Lease contains its duration in whole seconds
		expiry: time.AfterFunc(time.Hour, end),
	}
	k.expiry.Stop() // the timer starts with the first renewal
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

// renewal restarts the timer as if the renewal had succeeded at the start of its request. The other replicas see the
// renewal later, so they wait longer than the timer.
func (k *lock) renewal(do func() error) error {
	asked := time.Now()
	err := do()
	if err == nil {
		k.expiry.Reset(k.lasts - time.Since(asked))
	}
	return err
}

// release releases the Lease if this replica holds it. All work of the leader must have ended. If the release fails,
// the other replicas wait until the Lease expires.
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
