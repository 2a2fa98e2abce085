package reconciler

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

// leaseServer stores one Lease as an API server does: a write must contain the current resourceVersion.
type leaseServer struct {
	mu      sync.Mutex
	lease   *coordinationv1.Lease
	version int
	stored  map[string]time.Time // last write of each holder
}

var (
	leases     = schema.GroupResource{Group: coordinationv1.GroupName, Resource: "leases"}
	errUnsent  = errors.New("the request was lost")
	errNoReply = errors.New("the response was lost")
)

func (s *leaseServer) get() (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lease == nil {
		return nil, apierrors.NewNotFound(leases, "lease")
	}
	return s.lease.DeepCopy(), nil
}

func (s *leaseServer) delete() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lease = nil
}

// since returns the time since the last write that made the given replica the holder.
func (s *leaseServer) since(holder string) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return time.Since(s.stored[holder])
}

func (s *leaseServer) put(lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := ""
	if s.lease != nil {
		current = s.lease.ResourceVersion
	}
	switch {
	case lease.ResourceVersion == "" && current != "":
		return nil, apierrors.NewAlreadyExists(leases, lease.Name)
	case lease.ResourceVersion != current || s.lease != nil && lease.UID != s.lease.UID:
		return nil, apierrors.NewConflict(leases, lease.Name, errors.New("the object has been modified"))
	}
	s.version++
	s.lease = lease.DeepCopy()
	s.lease.ResourceVersion = strconv.Itoa(s.version)
	if s.lease.UID == "" {
		s.lease.UID = types.UID(s.lease.ResourceVersion)
	}
	s.stored[valueOf(lease.Spec.HolderIdentity)] = time.Now()
	return s.lease.DeepCopy(), nil
}

// badNetwork connects one replica to the server. While broken is set, requests and responses are lost or slow. While
// hangs is set, no request reaches the server.
type badNetwork struct {
	apiserver.Client
	leaseClient
	server *leaseServer
	broken atomic.Bool
	hangs  atomic.Bool
}

func (n *badNetwork) Leases(string) leaseClient { return n }

func (n *badNetwork) Get(ctx context.Context, _ string, _ metav1.GetOptions) (*coordinationv1.Lease, error) {
	return n.send(ctx, n.server.get)
}

func (n *badNetwork) Create(ctx context.Context, lease *coordinationv1.Lease, _ metav1.CreateOptions) (*coordinationv1.Lease, error) {
	return n.send(ctx, func() (*coordinationv1.Lease, error) { return n.server.put(lease) })
}

func (n *badNetwork) Update(ctx context.Context, lease *coordinationv1.Lease, _ metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	return n.send(ctx, func() (*coordinationv1.Lease, error) { return n.server.put(lease) })
}

// send may lose a response although the server processed the request. The server may also process the request long
// after the client has given up.
func (n *badNetwork) send(ctx context.Context, request func() (*coordinationv1.Lease, error)) (*coordinationv1.Lease, error) {
	if n.hangs.Load() {
		pause(ctx, requestTimeout)
		return nil, context.DeadlineExceeded
	}
	if !n.broken.Load() {
		time.Sleep(rand.N(20 * time.Millisecond))
		return request()
	}
	delay := func() time.Duration { return time.Duration(rand.ExpFloat64() * float64(4*time.Second)) }
	type response struct {
		lease *coordinationv1.Lease
		err   error
	}
	responses := make(chan response, 1)
	before, after := delay(), delay()
	switch rand.N(4) {
	case 0:
		pause(ctx, before)
		return nil, errUnsent
	case 1:
		go func() { time.Sleep(before); _, _ = request() }()
		pause(ctx, after)
		return nil, errNoReply
	default:
		go func() {
			time.Sleep(before)
			lease, err := request()
			time.Sleep(after)
			responses <- response{lease, err}
		}()
	}
	select {
	case r := <-responses:
		return r.lease, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(requestTimeout):
		return nil, context.DeadlineExceeded
	}
}

// TestOneLeader simulates hours with three replicas, bad networks and restarts. Two replicas must never be allowed to
// write at the same time. A replica must stop before two thirds of the Lease's duration have passed since its last
// renewal. While the networks work, there must soon be a leader.
func TestOneLeader(t *testing.T) {
	for range 5 {
		synctest.Test(t, func(t *testing.T) {
			server := &leaseServer{stored: make(map[string]time.Time)}
			var writing atomic.Int64
			var terms, overlaps atomic.Int64
			ctx, stop := context.WithCancel(t.Context())
			var replicas sync.WaitGroup
			var networks []*badNetwork
			for i := range 3 {
				n := &badNetwork{server: server}
				networks = append(networks, n)
				identity := ""
				term := func(ctx context.Context) error {
					terms.Add(1)
					if writing.Add(1) > 1 {
						overlaps.Add(1)
					}
					<-ctx.Done()
					if late := server.since(identity); late > 10*time.Second {
						t.Errorf("%s could write for %v after its last renewal", identity, late)
					}
					time.Sleep(rand.N(3 * time.Second)) // the last write
					writing.Add(-1)
					return nil
				}
				replicas.Go(func() {
					for life := 0; ctx.Err() == nil; life++ {
						identity = fmt.Sprintf("replica-%d-%d", i, life)
						e := newElection(identity)
						alive, die := context.WithTimeout(ctx, time.Duration(rand.ExpFloat64()*float64(2*time.Hour)))
						if err := e.Run(alive, n, term); err != nil {
							t.Error(err)
						}
						die()
					}
				})
			}
			for range 50 {
				for _, n := range networks {
					n.broken.Store(rand.N(2) == 0)
				}
				time.Sleep(rand.N(10 * time.Minute))
				for _, n := range networks {
					n.broken.Store(false)
				}
				time.Sleep(2 * time.Minute) // longer than the duration of the Lease plus the longest delay of a request
				if holderOf(server) == "" {
					time.Sleep(30 * time.Second) // the last leader may just have stopped
				}
				if holderOf(server) == "" {
					t.Error("no replica leads although all networks work")
				}
			}
			stop()
			replicas.Wait()
			if n := overlaps.Load(); n > 0 || terms.Load() < 10 {
				t.Errorf("%d of %d terms began while another replica could write", n, terms.Load())
			}
		})
	}
}

func holderOf(s *leaseServer) string {
	lease, err := s.get()
	if err != nil {
		return ""
	}
	return valueOf(lease.Spec.HolderIdentity)
}

// TestTakenLease checks that a leader stops at once if another client, such as an administrator, makes another replica
// the holder of the Lease.
func TestTakenLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{stored: make(map[string]time.Time)}
		left := make(chan time.Time, 1)
		stop := elect(t, newElection("first"), &badNetwork{server: server}, func(ctx context.Context) error {
			<-ctx.Done()
			left <- time.Now()
			return nil
		})
		time.Sleep(time.Second)
		lease, err := server.get()
		if err != nil {
			t.Fatal(err)
		}
		lease.Spec.HolderIdentity = new("other")
		if _, err := server.put(lease); err != nil {
			t.Fatal(err)
		}
		taken := time.Now()
		if took := (<-left).Sub(taken); took > 2*time.Second {
			t.Errorf("the term continued for %v", took)
		}
		stop()
		if holder := holderOf(server); holder != "other" {
			t.Errorf("%q holds the lease", holder)
		}
	})
}

// TestDeletedLease checks that, after a deletion of the Lease, a follower does not lead before the leader has stopped.
func TestDeletedLease(t *testing.T) {
	for _, hangs := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			server := &leaseServer{stored: make(map[string]time.Time)}
			ctx, stop := context.WithCancel(t.Context())
			var writing, terms atomic.Int64
			var replicas sync.WaitGroup
			networks := []*badNetwork{{server: server}, {server: server}}
			for i, n := range networks {
				replicas.Go(func() {
					if err := newElection(fmt.Sprint(i)).Run(ctx, n, func(ctx context.Context) error {
						terms.Add(1)
						if writing.Add(1) > 1 {
							t.Error("two replicas lead")
						}
						<-ctx.Done()
						writing.Add(-1)
						return nil
					}); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(5 * time.Second)
			}
			networks[0].hangs.Store(hangs)
			server.delete()
			time.Sleep(time.Minute)
			if writing.Load() != 1 || hangs != (terms.Load() > 1) {
				t.Errorf("requests of the leader hang: %v: %d leaders, %d terms", hangs, writing.Load(), terms.Load())
			}
			stop()
			replicas.Wait()
		})
	}
}

// TestStuckTerm checks that another replica becomes the leader if a term does not return after the end of its context.
func TestStuckTerm(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &leaseServer{stored: make(map[string]time.Time)}
		stuck, second := make(chan struct{}), newElection("second")
		stopFirst := elect(t, newElection("first"), &badNetwork{server: server}, func(context.Context) error { <-stuck; return nil })
		time.Sleep(time.Second)
		stopSecond := elect(t, second, &badNetwork{server: server}, func(ctx context.Context) error { <-ctx.Done(); return nil })
		var first sync.WaitGroup
		first.Go(stopFirst)
		time.Sleep(30 * time.Second)
		if second.leading.Load() {
			t.Error("the second replica leads during the last write of the first replica")
		}
		time.Sleep(time.Minute)
		if !second.leading.Load() {
			t.Error("the second replica does not lead")
		}
		close(stuck)
		first.Wait()
		stopSecond()
	})
}
