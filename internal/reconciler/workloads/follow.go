package workloads

import (
	"context"
	"fmt"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

func (w *Workloads) followPods(ctx context.Context, informer cache.SharedIndexInformer, b *book) error {
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerDetailedFuncs{
		AddFunc: func(obj any, initial bool) {
			since := time.Time{}
			if initial {
				since = b.started.Add(-recently)
			}
			w.put(b, obj, since)
		},
		UpdateFunc: func(old, obj any) {
			if replaced(old, obj) {
				w.remove(b, old)
			}
			w.put(b, obj, time.Time{})
		},
		DeleteFunc: func(obj any) { w.remove(b, obj) },
	})
	if ctx.Err() != nil {
		return nil // the informer was stopped because the context ended
	}
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	defer func() { _ = informer.RemoveEventHandler(registration) }()
	select {
	case <-registration.HasSyncedChecker().Done():
		w.listed.Store(true)
		b.setListed()
		w.repeat(b, informer.GetStore())
	case <-ctx.Done():
	}
	<-ctx.Done()
	return nil
}

// replaced reports whether the two objects of an update are different pods with the same name. Such an update occurs if
// the watch was broken when the old pod was deleted and the new pod was created.
func replaced(old, obj any) bool {
	before, ok := old.(*pod)
	after, still := obj.(*pod)
	return ok && (!still || before.key() != after.key())
}

func (w *Workloads) put(b *book, obj any, since time.Time) {
	p, ok := obj.(*pod)
	if !ok {
		return // the pod requests no GPU
	}
	before, gpu := b.put(p)
	if !gpu && !since.IsZero() {
		// The book omits a pod that ended before the retention. No leader may have seen the end of this pod.
		gpu = len(b.gpuPods([]any{p})) > 0
	}
	if !gpu {
		w.diary.writeEvents(p, nil)
		return
	}
	w.diary.writeEvents(p, changes(before, p, since))
}

func (w *Workloads) remove(b *book, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	p, ok := obj.(*pod)
	if ok && b.remove(p) && w.opts.follows() {
		w.diary.writeEvents(p, []change{deletedEvent()})
	}
}

// followClaims waits until the API server serves resource claims (Kubernetes 1.34). Without resource claims, or without
// the permission to read them, only extended resources are counted.
func (w *Workloads) followClaims(ctx context.Context, c Cluster, b *book) error {
	if !watch.Served(ctx, c.Server, resourcev1.SchemeGroupVersion.WithResource(watch.ResourceClaims), w.log) {
		return nil
	}
	informer := watch.Informer(c.Watches.ResourceClaims(metav1.NamespaceAll), &resourcev1.ResourceClaim{})
	c.Failures.Follow(informer, watch.ResourceClaims)
	// This call fails only for a running informer.
	_ = informer.SetTransform(func(obj any) (any, error) {
		if c, ok := obj.(*resourcev1.ResourceClaim); ok {
			return w.keepClaim(c), nil
		}
		return obj, nil
	})
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { w.putClaim(b, obj) },
		UpdateFunc: func(_, obj any) { w.putClaim(b, obj) },
		DeleteFunc: func(obj any) { removeClaim(b, obj) },
	})
	if err != nil {
		return fmt.Errorf("watch resource claims: %w", err)
	}
	var g sync.WaitGroup
	g.Go(func() { informer.RunWithContext(ctx) })
	select {
	case <-registration.HasSyncedChecker().Done():
		w.repeat(b, c.Pods.GetStore()) // the claim may show that more pods request GPUs
	case <-ctx.Done():
	}
	g.Wait()
	return nil
}

// repeat sends the events of the current state to the archive, because an earlier leader may not have sent them.
func (w *Workloads) repeat(b *book, pods cache.Store) {
	if w.opts.Archive != nil {
		w.opts.Archive.Repeat(w.current(b, pods))
	}
}

func (w *Workloads) putClaim(b *book, obj any) {
	c, ok := obj.(*claim)
	if !ok {
		return
	}
	for _, p := range b.putClaim(c) {
		w.diary.writeEvents(p, changes(nil, p, time.Now().Add(-recently)))
	}
}

func removeClaim(b *book, obj any) {
	if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = gone.Obj
	}
	if c, ok := obj.(*claim); ok {
		b.removeClaim(c)
	}
}
