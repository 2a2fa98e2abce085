package workloads

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/labelvalue"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// localQueues contains the API versions of Kueue's LocalQueue, with the preferred version first. In both versions,
// spec.clusterQueue is immutable.
var localQueues = []schema.GroupVersionResource{
	{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: watch.LocalQueues},
	{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: watch.LocalQueues},
}

type localQueue struct{ namespace, name string }

// clusterQueues contains the ClusterQueue of each LocalQueue. It also contains deleted LocalQueues, because their pods
// may still run.
type clusterQueues struct {
	of map[localQueue]string
	// labelled is set while RBAC forbids listing LocalQueues. Then resolve uses the pods' labels.
	labelled bool
	// stale contains the namespaces in which pods must be rendered again because a LocalQueue changed.
	stale map[string]bool
}

// resolve adds the ClusterQueue to a pod's queue. It normally reads the ClusterQueue from the LocalQueue. It ignores
// the pod's label, because anyone who can create pods can set this label.
func (c *clusterQueues) resolve(namespace string, q queue) queue {
	switch {
	case c.labelled:
		return q
	case !q.local:
		q.cluster = ""
	default:
		q.cluster = c.of[localQueue{namespace, q.name}]
	}
	return q
}

// putLocalQueue stores the ClusterQueue of a LocalQueue. The next page renders the affected pods again. If
// putLocalQueue rendered them, it would have to search all pods for each LocalQueue.
func (b *book) putLocalQueue(of localQueue, cluster string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues.of[of] == cluster {
		return // the ClusterQueue is unchanged; Kueue often updates the status of a LocalQueue
	}
	b.queues.of[of] = cluster
	b.queues.stale[of.namespace] = true
}

func (b *book) setLabelled(labelled bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.queues.labelled == labelled {
		return
	}
	b.queues.labelled = labelled
	for _, e := range b.pods {
		b.queues.stale[e.pod.namespace] = true
	}
}

func (b *book) showStale() {
	if len(b.queues.stale) == 0 {
		return
	}
	for _, e := range b.pods {
		if e.samples != nil && b.queues.stale[e.pod.namespace] {
			b.show(e)
		}
	}
	clear(b.queues.stale)
}

func (w *Workloads) followLocalQueues(ctx context.Context, c Cluster, b *book) error {
	of, ok := watch.ServedVersion(ctx, c.Server, localQueues, w.log)
	if !ok || !w.mayList(ctx, c, of, b) {
		return nil
	}
	informer := watch.Informer(c.Dynamic.Resource(of), &unstructured.Unstructured{})
	c.Failures.Follow(informer, watch.LocalQueues)
	put := func(obj any) {
		if q, ok := obj.(*unstructured.Unstructured); ok {
			cluster, _, _ := unstructured.NestedString(q.Object, "spec", "clusterQueue")
			b.putLocalQueue(localQueue{q.GetNamespace(), q.GetName()}, strings.Clone(labelvalue.Valid(cluster)))
		}
	}
	_ = informer.SetTransform(reduceLocalQueue) // the call fails only for a running informer
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: put, UpdateFunc: func(_, obj any) { put(obj) }})
	if err != nil {
		return fmt.Errorf("watch local queues: %w", err)
	}
	var g sync.WaitGroup
	g.Go(func() { informer.RunWithContext(ctx) })
	select {
	case <-registration.HasSyncedChecker().Done():
		b.setLabelled(false)
	case <-ctx.Done():
	}
	g.Wait()
	return nil
}

// reduceLocalQueue removes the status and the managed fields, which are the largest parts of a LocalQueue.
func reduceLocalQueue(obj any) (any, error) {
	if q, ok := obj.(*unstructured.Unstructured); ok {
		q.SetManagedFields(nil)
		delete(q.Object, "status")
	}
	return obj, nil
}

// mayList waits until RBAC permits listing LocalQueues. Until then, the ClusterQueue is taken from the pods' labels.
// mayList returns false if the context ends first.
func (w *Workloads) mayList(ctx context.Context, c Cluster, of schema.GroupVersionResource, b *book) bool {
	for logged := false; ; logged = true {
		_, err := c.Dynamic.Resource(of).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case ctx.Err() != nil:
			return false
		case !apierrors.IsForbidden(err):
			return true // the informer retries after other errors
		case !logged:
			w.log.Warn("cannot list local queues of Kueue: cluster queues are taken from pod labels, which the creator of a pod can set", "err", err)
			b.setLabelled(true)
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(refusedFor):
		}
	}
}
