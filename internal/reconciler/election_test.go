package reconciler

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/kubetest"
)

func newElection(identity string) *election {
	return &election{
		lease: Lease{Elect: true, Namespace: "gpuledger", Name: "lease", Identity: identity, Duration: 15 * time.Second},
		log:   slog.New(slog.DiscardHandler),
	}
}

func holder(t *testing.T, kube *kubetest.Client) string {
	t.Helper()
	lease, err := kube.Leases("gpuledger").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *lease.Spec.HolderIdentity
}

// elect runs an election. The function stop ends the election and checks the result.
func elect(t *testing.T, e *election, kube apiserver.Client, term func(context.Context) error) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- e.Run(ctx, kube, term) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// checkHeld checks that the Lease is held at the end of the last write.
func checkHeld(t *testing.T, kube *kubetest.Client) {
	t.Helper()
	lease, err := kube.Leases("gpuledger").Get(t.Context(), "lease", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := *lease.Spec.HolderIdentity; got != "first" {
		t.Errorf("during the last write, %q holds the lease", got)
	}
	if age := time.Since(lease.Spec.RenewTime.Time); age > 5*time.Second {
		t.Errorf("during the last write, the lease was renewed %v ago", age)
	}
}

// TestLeaseIsReleasedLast checks that a leader holds the Lease until its last write has ended, even during a shutdown.
func TestLeaseIsReleasedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New()
		e := newElection("first")
		stop := elect(t, e, kube, func(ctx context.Context) error {
			<-ctx.Done()
			time.Sleep(30 * time.Second) // the last write takes this long on the fake clock
			checkHeld(t, kube)
			return nil
		})
		synctest.Wait()
		if !e.leading.Load() {
			t.Error("there is no leader")
		}
		stop()
		if got := holder(t, kube); got != "" || e.leading.Load() {
			t.Errorf("after the end, %q holds the lease", got)
		}
	})
}

// TestLostLease checks a leader that cannot renew the Lease. The leader must stop before another replica can become the
// leader. Then it must wait for the Lease again.
func TestLostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New()
		var broken atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), &coordinationv1.Lease{}, errors.New("gone")
		})
		e := newElection("first")
		terms, left := new(atomic.Int64), make(chan time.Time, 10)
		stop := elect(t, e, kube, func(ctx context.Context) error {
			terms.Add(1)
			<-ctx.Done()
			left <- time.Now()
			return nil
		})
		synctest.Wait()
		broken.Store(true)
		since := time.Now()
		if took := (<-left).Sub(since); took >= e.lease.Duration {
			t.Errorf("the term continued for %v, when another replica might lead", took)
		}
		broken.Store(false)
		time.Sleep(2 * e.lease.Duration)
		synctest.Wait()
		if terms.Load() != 2 || !e.leading.Load() {
			t.Errorf("%d terms, leading: %v", terms.Load(), e.leading.Load())
		}
		stop()
	})
}

func TestTermFails(t *testing.T) {
	for _, elect := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			e := newElection("first")
			e.lease.Elect = elect
			want := errors.New("broken")
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			err := e.Run(ctx, kubetest.New(), func(context.Context) error {
				stop() // end the term with an error, as after a failed cleanup
				return want
			})
			if !errors.Is(err, want) {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := metav1.NowMicro()
		kube := kubetest.New(&coordinationv1.Lease{
			ObjectMeta: metav1.ObjectMeta{Namespace: "gpuledger", Name: "lease"},
			Spec:       coordinationv1.LeaseSpec{HolderIdentity: new("other"), LeaseDurationSeconds: new(int32(3600)), AcquireTime: &now, RenewTime: &now},
		})
		e := newElection("second")
		stop := elect(t, e, kube, func(context.Context) error {
			t.Error("a follower leads")
			return nil
		})
		time.Sleep(time.Minute)
		synctest.Wait()
		if !e.settled.Load() || e.leading.Load() {
			t.Errorf("settled %v, leading %v", e.settled.Load(), e.leading.Load())
		}
		stop()
		if got := holder(t, kube); got != "other" {
			t.Errorf("%q holds the lease", got)
		}
	})
}

// TestHangingLease checks that a leader whose renewals hang stops before another replica can become the leader.
func TestHangingLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New()
		var hangs atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			if hangs.Load() {
				time.Sleep(10 * time.Second) // on the fake clock
			}
			return hangs.Load(), &coordinationv1.Lease{}, context.DeadlineExceeded
		})
		e, left := newElection("first"), make(chan time.Time, 10)
		stop := elect(t, e, kube, func(ctx context.Context) error {
			<-ctx.Done()
			left <- time.Now()
			return nil
		})
		synctest.Wait()
		hangs.Store(true)
		since := time.Now()
		if took := (<-left).Sub(since); took > e.lease.Duration*2/3 {
			t.Errorf("the term continued for %v, with a lease of %v", took, e.lease.Duration)
		}
		hangs.Store(false)
		stop()
	})
}

// TestLostLeaseIsReleasedLast checks a leader that could not renew the Lease. It must release the Lease only after its
// last write.
func TestLostLeaseIsReleasedLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		kube := kubetest.New()
		var broken atomic.Bool
		kube.PrependReactor("update", "leases", func(clienttesting.Action) (bool, runtime.Object, error) {
			return broken.Load(), &coordinationv1.Lease{}, errors.New("gone")
		})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- newElection("first").Run(ctx, kube, func(ctx context.Context) error {
				<-ctx.Done()
				broken.Store(false)
				time.Sleep(30 * time.Second) // the last write takes this long on the fake clock
				checkHeld(t, kube)
				stop()
				return nil
			})
		}()
		synctest.Wait()
		broken.Store(true)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if got := holder(t, kube); got != "" {
			t.Errorf("after the end, %q holds the lease", got)
		}
	})
}
