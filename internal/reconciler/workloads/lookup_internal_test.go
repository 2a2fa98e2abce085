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

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestLookupForgets checks that cached results expire. Otherwise the results for deleted namespaces would stay in
// memory.
func TestLookupForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLookup(nil, nil, nil, slog.New(slog.DiscardHandler))
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

// installed simulates a kind that is installed after the first request. All callers get the old list of kinds before
// the first caller requests the new list.
type installed struct {
	meta.ResettableRESTMapperWithContext
	first sync.WaitGroup
	fresh atomic.Bool
}

func (k *installed) ResetWithContext(context.Context) { k.fresh.Store(true) }

func (k *installed) RESTMappingWithContext(_ context.Context, gk schema.GroupKind, _ ...string) (*meta.RESTMapping, error) {
	if k.fresh.Load() {
		return &meta.RESTMapping{}, nil
	}
	k.first.Done()
	k.first.Wait()
	return nil, &meta.NoKindMatchError{GroupKind: gk}
}

// TestKindsReadAnewForAll checks that concurrent requests for a new kind read the list of kinds only once, and that all
// of them find the kind.
func TestKindsReadAnewForAll(t *testing.T) {
	kinds := &installed{}
	l := newLookup(nil, kinds, nil, slog.New(slog.DiscardHandler))
	var looking sync.WaitGroup
	kinds.first.Add(tracers)
	for range tracers {
		looking.Go(func() {
			if _, err := l.mapping(t.Context(), schema.GroupKind{Group: "workload.example", Kind: "TrainJob"}, "v1"); err != nil {
				t.Error(err)
			}
		})
	}
	looking.Wait()
}

func TestTermEndsUnderALookup(t *testing.T) {
	ctx, end := context.WithCancel(t.Context())
	objects := fake.NewSimpleMetadataClient(runtime.NewScheme())
	objects.PrependReactor("get", "jobs", func(clienttesting.Action) (bool, runtime.Object, error) {
		end()
		return true, nil, context.Canceled
	})
	kinds := meta.NewDefaultRESTMapper(nil)
	kinds.Add(schema.GroupVersionKind{Group: "batch", Version: "v1", Kind: "Job"}, meta.RESTScopeNamespace)
	l := newLookup(objects, resettable{kinds}, func(result string) { t.Errorf("%s is counted", result) }, slog.New(slog.DiscardHandler))
	job := reference{apiVersion: "batch/v1", kind: "Job", namespace: "ml", name: "train", uid: "u1"}
	if why := l.controllerOf(ctx, job).why; why != failed {
		t.Errorf("the reason is %q", why)
	}
}

type resettable struct{ *meta.DefaultRESTMapper }

func (resettable) ResetWithContext(context.Context) {}

func (r resettable) RESTMappingWithContext(_ context.Context, gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return r.RESTMapping(gk, versions...)
}
