package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

// leaseClient makes requests for Leases.
type leaseClient = apiserver.Objects[*coordinationv1.Lease, *coordinationv1.LeaseList]

// lock acquires, renews and releases a Lease (coordination.k8s.io/v1). Each write contains the resourceVersion of the
// previous version, so the API server accepts the write of only one replica. A replica takes over the Lease only after
// it has observed no renewal for the duration of the Lease. It does not use the times in the Lease, because the clocks
// of replicas may differ. A replica that started after the Lease was deleted does not know the previous holder and does
// not wait.
type lock struct {
	config Lease
	log    *slog.Logger
	leases leaseClient
	// retry is the interval between two attempts to acquire or renew the Lease. lasts is the time for which this
	// replica may write after the start of a renewal. It is two thirds of the Lease's duration. In the last third,
	// requests in flight can end.
	retry, lasts time.Duration

	// version is the version of the Lease that this replica observed last. since is the time of the first observation
	// of this version.
	version *coordinationv1.Lease
	since   time.Time
	renewed time.Time // start of the last request by which this replica acquired or renewed the Lease
}

func newLock(config Lease, leases leaseClient, log *slog.Logger) *lock {
	return &lock{
		config: config, leases: leases, log: log,
		retry: max(config.Duration/8, 50*time.Millisecond),
		lasts: config.Duration.Truncate(time.Second) * 2 / 3, // the Lease contains its duration in whole seconds
	}
}

// take acquires or renews the Lease unless another replica holds it, and returns the holder.
func (l *lock) take(ctx context.Context) (holder string, err error) {
	lease, err := l.leases.Get(ctx, l.config.Name, metav1.GetOptions{})
	save := l.update
	switch {
	case apierrors.IsNotFound(err):
		lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.config.Namespace, Name: l.config.Name}}
		save = l.create
	case err != nil:
		return "", err
	default:
		l.observe(lease)
	}
	// The holder of a deleted Lease may write until it notices that the Lease was deleted.
	if other := l.other(); other != "" {
		return other, nil
	}
	return l.config.Identity, l.write(ctx, lease, save)
}

// other returns the holder of the last observed version of the Lease. If this replica is the holder, or if the version
// has expired, other returns an empty name.
func (l *lock) other() string {
	if l.version == nil {
		return ""
	}
	spec := l.version.Spec
	free := l.since.Add(time.Duration(valueOf(spec.LeaseDurationSeconds)) * time.Second)
	if valueOf(spec.HolderIdentity) == l.config.Identity || time.Now().After(free) {
		return ""
	}
	return valueOf(spec.HolderIdentity)
}

// observe records a version of the Lease. A change of an annotation is not a renewal, so it does not change the field
// since.
func (l *lock) observe(lease *coordinationv1.Lease) {
	same := l.version != nil &&
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

// write saves the Lease with this replica as the holder. save is create or update.
func (l *lock) write(ctx context.Context, lease *coordinationv1.Lease, save func(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)) error {
	began, lease := time.Now(), lease.DeepCopy()
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

// renew renews the Lease and returns the holder. After a failure, renew reads the Lease, because another client may
// have changed or deleted the Lease.
func (l *lock) renew(ctx context.Context) (holder string, err error) {
	if err := l.write(ctx, l.version, l.update); err == nil {
		return l.config.Identity, nil
	}
	return l.take(ctx)
}

// lastWrites is the maximum time for which keep renews the Lease after the end of the tenure. The last writes of a
// leader take less time.
const lastWrites = 4 * requestTimeout

// keep renews the Lease until the context ends. It calls end if another replica holds the Lease, or if the Lease was
// not renewed in time. A timer calls end even while a request hangs. After the end of the tenure, keep still renews the
// Lease, so that no other replica acquires the Lease before the last write. If the term does not return within the time
// lastWrites, keep stops, and another replica can become the leader.
func (l *lock) keep(ctx, tenure context.Context, end func()) {
	expiry := time.AfterFunc(time.Until(l.expires()), end)
	defer expiry.Stop()
	failing, active := false, time.Now() // active is the last time at which tenure had not ended
	for pause(ctx, l.retry); ctx.Err() == nil; pause(ctx, l.retry) {
		switch holder, err := l.renew(ctx); {
		case err == nil && holder != l.config.Identity:
			end()
			return
		case err == nil:
			failing = false
			expiry.Reset(time.Until(l.expires()))
		case !failing && ctx.Err() == nil:
			failing = true
			l.log.Warn("cannot renew the Lease, will retry", "err", err)
		}
		if tenure.Err() == nil {
			active = time.Now()
		} else if time.Since(active) > lastWrites {
			l.log.Error("stopped renewing the Lease, because the tasks of the leader did not end in time: another replica may become the leader")
			return
		}
	}
}

// release releases the Lease if this replica holds it. If the release fails, the other replicas wait until the Lease
// expires.
func (l *lock) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, l.lasts/2)
	defer cancel()
	_ = editHeld(ctx, l.leases, l.config, func(lease *coordinationv1.Lease) bool {
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(string), new(int32(1))
		lease.Spec.AcquireTime, lease.Spec.RenewTime = &now, &now
		return true
	})
}

// editHeld changes the Lease if edit returns true. It returns an error if this replica does not hold the Lease.
func editHeld(ctx context.Context, leases leaseClient, config Lease, edit func(*coordinationv1.Lease) bool) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		lease, err := leases.Get(ctx, config.Name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		if valueOf(lease.Spec.HolderIdentity) != config.Identity {
			return fmt.Errorf("lease %s/%s is not held by this replica", config.Namespace, config.Name)
		}
		if !edit(lease) {
			return nil
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
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
