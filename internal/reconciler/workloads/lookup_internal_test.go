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
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestLookupForgets: what is remembered does not grow with the namespaces that come and go.
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
			t.Errorf("%d refusals and %d answers are remembered", len(l.closed), len(l.known))
		}
	})
}

// installed is the kinds of an API server, of which one was installed after they were
// read. All who look at first do so before anybody has them read again.
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

// TestKindsReadAnewForAll: of those who look for a new kind at one time, one has the kinds
// read anew, and all find it.
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
