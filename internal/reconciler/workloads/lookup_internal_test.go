package workloads

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestLookupForgets checks that cached results expire. Otherwise the results for deleted namespaces would stay in
// memory.
func TestLookupForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookup(nil, newKinds(nil), nil, slog.New(slog.DiscardHandler))
		for i := range 1000 {
			ns := fmt.Sprintf("ci-%d", i)
			l.close(scope{schema.GroupKind{Group: "batch", Kind: "Job"}, ns})
			l.remember(reference{kind: "Job", namespace: ns}, answer{why: forbidden})
		}
		time.Sleep(refusedFor)
		l.forget()
		if len(l.closed) != 0 || len(l.known) != 0 {
			t.Errorf("%d refusals and %d answers are cached", len(l.closed), len(l.known))
		}
	})
}

// served is an API server that serves the given resources of the API group batch/v1. Each request takes a second. The
// servers of aggregated APIs, or all servers, may be down.
type served struct {
	jobs          []metav1.APIResource
	downAPI, down bool
	refused       bool // RBAC forbids reading the lists
	requests      atomic.Int32
}

func (s *served) ServedResources(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	s.requests.Add(1)
	time.Sleep(time.Second)
	switch {
	case s.down, s.downAPI && groupVersion != "v1":
		return nil, apierrors.NewServiceUnavailable("service unavailable")
	case s.refused:
		return nil, apierrors.NewForbidden(schema.GroupResource{}, groupVersion, nil)
	case groupVersion == "batch/v1":
		return &metav1.APIResourceList{APIResources: s.jobs}, nil
	case groupVersion == "v1":
		return &metav1.APIResourceList{}, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{}, groupVersion)
}

var job = metav1.APIResource{Name: "jobs", Kind: "Job", Namespaced: true}

// TestKinds checks that concurrent requests for a kind read the list of resources only once. If a kind is installed
// later, the list must be read again.
func TestKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &served{jobs: []metav1.APIResource{{Name: "jobs/status", Kind: "Job", Namespaced: true}}}
		k := newKinds(server)
		ask := func(group, kind string, found bool, requests int32) {
			t.Helper()
			var asking sync.WaitGroup
			for range tracers {
				asking.Go(func() {
					r, err := k.resource(t.Context(), schema.GroupVersion{Group: group, Version: "v1"}, kind)
					if found && (err != nil || r.Name != "jobs") || !found && !meta.IsNoMatchError(err) {
						t.Errorf("%s in %s: %+v, %v; is it served: %v", kind, group, r, err, found)
					}
				})
			}
			asking.Wait()
			if n := server.requests.Swap(0); n != requests {
				t.Errorf("%d requests for the kind %s in %s, want %d", n, kind, group, requests)
			}
		}
		ask("batch", "Job", false, 1)
		ask("batch", "Job", false, 0)
		ask("missing.example", "Job", false, 1)
		server.jobs = append(server.jobs, job)
		time.Sleep(refusedFor)
		ask("batch", "Job", true, 1)
		time.Sleep(refusedFor)
		ask("batch", "Job", true, 0)
		ask("batch", "CronJob", false, 1)
		ask("missing.example", "Job", false, 1)
		ask("batch", "job", true, 0)
		time.Sleep(foundFor)
		if k.forget(); len(k.lists) != 0 {
			t.Errorf("%d lists are cached", len(k.lists))
		}
	})
}

// If the server of an aggregated API is down, its kinds must count as unknown, with one request for the list and one for
// the API server in the time refusedFor. Known kinds must stay known. If the API server is down, this must be an error.
func TestKindsOfAPIThatIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &served{jobs: []metav1.APIResource{job}, downAPI: true}
		k := newKinds(server)
		batch := schema.GroupVersion{Group: "batch", Version: "v1"}
		ask := func(kind string, found, unknown bool, requests int32) {
			t.Helper()
			_, err := k.resource(t.Context(), batch, kind)
			if (err == nil) != found || meta.IsNoMatchError(err) != unknown {
				t.Errorf("%s: error %v; want found %v, unknown %v", kind, err, found, unknown)
			}
			if n := server.requests.Swap(0); n != requests {
				t.Errorf("%s: %d requests, want %d", kind, n, requests)
			}
		}
		ask("Job", false, true, 2)
		ask("Job", false, true, 0)
		server.downAPI = false
		time.Sleep(refusedFor)
		ask("Job", true, false, 1)
		server.downAPI = true
		time.Sleep(refusedFor)
		ask("CronJob", false, true, 2)
		ask("Job", true, false, 0)
		server.down = true
		time.Sleep(refusedFor)
		ask("CronJob", false, false, 2)
		ask("CronJob", false, false, 2)
	})
}

// If RBAC forbids reading a list of kinds, lookups of thousands of owners must make only one request in the time
// refusedFor.
func TestKindsAreForbidden(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &served{jobs: []metav1.APIResource{job}, refused: true}
		k := newKinds(server)
		ask := func(forbidden bool, requests int32) {
			t.Helper()
			_, err := k.resource(t.Context(), schema.GroupVersion{Group: "batch", Version: "v1"}, "Job")
			if apierrors.IsForbidden(err) != forbidden || !forbidden && err != nil {
				t.Errorf("error %v, want forbidden: %v", err, forbidden)
			}
			if n := server.requests.Swap(0); n != requests {
				t.Errorf("%d requests, want %d", n, requests)
			}
		}
		ask(true, 1)
		ask(true, 0)
		time.Sleep(refusedFor)
		ask(true, 1)
		server.refused = false
		time.Sleep(refusedFor)
		ask(false, 1)
	})
}

func TestTermEndsUnderALookup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, end := context.WithCancel(t.Context())
		objects := fake.NewSimpleMetadataClient(runtime.NewScheme())
		objects.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
			end()
			return true, nil, context.Canceled
		})
		l := newLookup(objects, newKinds(&served{jobs: []metav1.APIResource{job}}), func(result string) { t.Errorf("%s is counted", result) }, slog.New(slog.DiscardHandler))
		train := reference{apiVersion: "batch/v1", kind: "Job", namespace: "ml", name: "train", uid: "u1"}
		if why := l.controllerOf(ctx, train).why; why != failed {
			t.Errorf("the reason is %q", why)
		}
	})
}
