package reconciler

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
)

// lock acquires, renews and releases a Lease (coordination.k8s.io/v1). Each write contains the resourceVersion of the
// previous version, so the API server accepts the write of only one replica. A replica waits for the whole duration of
// the Lease after it has observed a new version, and does not compare its clock with the times in the Lease.
type lock struct {
	config Lease
	leases coordinationclient.LeaseInterface
	// retry is the interval between two attempts. lasts is the time for which this replica may write after the start of
	// a renewal. The last third of the Lease's duration is time for writes in flight to end.
	retry, lasts time.Duration

	// version is the version of the Lease that was last observed, and since is when it was observed first.
	version *coordinationv1.Lease
	since   time.Time
	renewed time.Time // start of the last request by which this replica acquired or renewed the Lease
}

func newLock(config Lease, leases coordinationclient.LeaseInterface) *lock {
	return &lock{
		config: config, leases: leases,
		retry: max(config.Duration/8, 50*time.Millisecond),
		lasts: config.Duration.Truncate(time.Second) * 2 / 3, // the Lease contains its duration in whole seconds
	}
}

// take acquires or renews the Lease unless another replica holds it, and returns the holder.
func (l *lock) take(ctx context.Context) (holder string, err error) {
	lease, err := l.leases.Get(ctx, l.config.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		l.observe(&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.config.Namespace, Name: l.config.Name}})
		return l.config.Identity, l.write(ctx, l.create)
	case err != nil:
		return "", err
	}
	l.observe(lease)
	holder = valueOf(lease.Spec.HolderIdentity)
	free := l.since.Add(time.Duration(valueOf(lease.Spec.LeaseDurationSeconds)) * time.Second)
	if holder != "" && holder != l.config.Identity && time.Now().Before(free) {
		return holder, nil
	}
	return l.config.Identity, l.write(ctx, l.update)
}

// observe notes a version of the Lease. A change of an annotation is not a renewal.
func (l *lock) observe(lease *coordinationv1.Lease) {
	same := l.version != nil && l.version.UID == lease.UID &&
		valueOf(l.version.Spec.HolderIdentity) == valueOf(lease.Spec.HolderIdentity) && l.version.Spec.RenewTime.Equal(lease.Spec.RenewTime)
	if !same {
		l.since = time.Now()
	}
	l.version = lease
}

func (l *lock) create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.leases.Create(ctx, lease, metav1.CreateOptions{})
}

func (l *lock) update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.leases.Update(ctx, lease, metav1.UpdateOptions{})
}

// write replaces the version that was last observed and makes this replica the holder. save is create or update.
func (l *lock) write(ctx context.Context, save func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)) error {
	began, lease := time.Now(), l.version.DeepCopy()
	spec, now := &lease.Spec, metav1.NewMicroTime(began)
	if valueOf(spec.HolderIdentity) != l.config.Identity {
		spec.HolderIdentity, spec.AcquireTime = &l.config.Identity, &now
		spec.LeaseTransitions = new(valueOf(spec.LeaseTransitions) + 1)
	}
	spec.LeaseDurationSeconds, spec.RenewTime = new(int32(l.config.Duration/time.Second)), &now
	saved, err := save(ctx, lease)
	if err != nil {
		return err
	}
	l.observe(saved)
	l.renewed = began
	return nil
}

// expires returns the time until which this replica may write.
func (l *lock) expires() time.Time { return l.renewed.Add(l.lasts) }

// keep renews the Lease until the context ends. It calls end if another replica holds the Lease, or if the last renewal
// began too long ago, even while a request hangs. After that it continues to renew the Lease, so that no other replica
// acquires it before the last write.
func (l *lock) keep(ctx context.Context, end func()) {
	expiry := time.AfterFunc(time.Until(l.expires()), end)
	defer expiry.Stop()
	for pause(ctx, l.retry); ctx.Err() == nil; pause(ctx, l.retry) {
		err := l.write(ctx, l.update)
		if err != nil { // for example, someone else changed or deleted the Lease
			var holder string
			holder, err = l.take(ctx)
			if err == nil && holder != l.config.Identity {
				end()
				return
			}
		}
		if err == nil {
			expiry.Reset(time.Until(l.expires()))
		}
	}
}

// release releases the Lease if this replica holds it. If the release fails, the other replicas wait until the Lease
// expires.
func (l *lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.lasts/2)
	defer cancel()
	_ = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := l.leases.Get(ctx, l.config.Name, metav1.GetOptions{})
		if err != nil || valueOf(lease.Spec.HolderIdentity) != l.config.Identity {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(string), new(int32(1))
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
		_, err = l.leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// valueOf returns the value of an optional field, or the zero value if the field is not set.
func valueOf[T any](field *T) T {
	if field == nil {
		return *new(T)
	}
	return *field
}
