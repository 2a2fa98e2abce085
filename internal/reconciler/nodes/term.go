package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/verdict"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"

	coreinformers "k8s.io/client-go/informers/core/v1"
	typedcore "k8s.io/client-go/kubernetes/typed/core/v1"
)

// term is the work of one term as the leader. All its memory ends with it: the next
// leader reads every exporter anew.
type term struct {
	opts     Options
	kube     kubernetes.Interface
	log      *slog.Logger
	counts   *counts
	failures *watch.Failures

	client *exporter.Client
	judge  *verdict.Judge
	budget *verdict.Budget
	events record.EventRecorder

	pods   []cache.SharedIndexInformer
	nodes  cache.SharedIndexInformer
	slices *resourceSlices // nil where the cluster has no ResourceSlices

	reads     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	writes    workqueue.TypedRateLimitingInterface[string]
	readRate  *rate.Limiter
	writeRate *rate.Limiter

	fleet  *fleet
	memory *memory
	held   *set // Nodes whose change waits for the budget
	synced atomic.Bool
}

// The waits after something went wrong, from the first to the longest.
const (
	readAgain, readAgainMax   = time.Second, 2 * time.Minute
	writeAgain, writeAgainMax = time.Second, 5 * time.Minute
)

// writers is how many Nodes are written at once; the API server answers in
// milliseconds, so the rate is what counts.
const writers = 4

func newTerm(opts Options, c Cluster, counts *counts, log *slog.Logger) (*term, error) {
	client, err := exporter.NewClient(opts.Exporters)
	if err != nil {
		return nil, err
	}
	t := &term{
		opts: opts, kube: c.Kube, log: log, counts: counts, failures: c.Failures,
		client: client,
		// A silent exporter's word stands until it must have been asked again.
		judge:  verdict.New(opts.Rules, 2*opts.Resync),
		budget: verdict.NewBudget(),
		pods:   c.Pods,
		nodes:  coreinformers.NewNodeInformer(c.Kube, 0, cache.Indexers{}),
		reads: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](readAgain, min(readAgainMax, opts.Resync))),
		writes: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](writeAgain, writeAgainMax)),
		readRate:  rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate/10))),
		writeRate: rate.NewLimiter(rate.Limit(opts.Writes), 1),
		fleet:     newFleet(),
		memory:    &memory{nodes: make(map[string]*remembered)},
		held:      newSet(),
	}
	if err := t.nodes.SetTransform(t.opts.trim); err != nil {
		return nil, fmt.Errorf("prepare the informer of nodes: %w", err)
	}
	t.failures.Follow(t.nodes, watch.Nodes)
	return t, nil
}

// run works until the context ends. When it returns, nothing is written any more.
func (t *term) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	defer broadcaster.StartRecordingToSink(&typedcore.EventSinkImpl{Interface: t.kube.CoreV1().Events("")}).Stop()
	t.events = broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "gpuledger-reconciler"})
	t.slices = t.findSlices(ctx)
	delivered, err := t.listen()
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { t.nodes.RunWithContext(ctx); return nil })
	if t.slices != nil {
		g.Go(func() error { t.slices.informer.RunWithContext(ctx); return nil })
	}
	g.Go(func() error {
		<-ctx.Done()
		t.reads.ShutDown()
		t.writes.ShutDown()
		return nil
	})
	g.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), delivered...) {
			return nil // the term has ended
		}
		t.synced.Store(true)
		return t.work(ctx)
	})
	return g.Wait()
}

// work reads and writes. No Node is written before every exporter was asked once:
// only then is it known who claims which GPU.
func (t *term) work(ctx context.Context) error {
	swept := t.fleet.sweep()
	g, ctx := errgroup.WithContext(ctx)
	for range t.opts.Concurrency {
		g.Go(func() error { return each(ctx, t.reads, t.read) })
	}
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-swept:
		}
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() { _ = each(ctx, t.writes, t.sync) })
		}
		writing.Wait()
		return nil
	})
	return g.Wait()
}

// each takes items from a queue until it is shut down. An item of which do says that
// it failed is taken again, later each time.
func each[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], do func(context.Context, T) bool) error {
	for {
		item, stop := queue.Get()
		if stop || ctx.Err() != nil {
			return nil
		}
		if do(ctx, item) {
			queue.Forget(item)
		} else {
			queue.AddRateLimited(item)
		}
		queue.Done(item)
	}
}

// listen hears of pods and Nodes, and returns what says that all of them were heard.
func (t *term) listen() ([]cache.InformerSynced, error) {
	var delivered []cache.InformerSynced
	for _, informer := range t.pods {
		r, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    t.podSeen,
			UpdateFunc: func(_, obj any) { t.podSeen(obj) },
			DeleteFunc: t.podGone,
		})
		if err != nil {
			return nil, fmt.Errorf("listen to pods: %w", err)
		}
		delivered = append(delivered, r.HasSynced)
	}
	r, err := t.nodes.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    t.nodeSeen,
		UpdateFunc: func(_, obj any) { t.nodeSeen(obj) },
		DeleteFunc: t.nodeSeen,
	})
	if err != nil {
		return nil, fmt.Errorf("listen to nodes: %w", err)
	}
	return append(delivered, r.HasSynced), nil
}

func (t *term) nodeSeen(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		t.writes.Add(name.Name)
	}
}

// podSeen has an exporter read when it gets ready, and again when it was restarted.
func (t *term) podSeen(obj any) {
	pod, ok := obj.(*exporter.Pod)
	if !ok {
		return
	}
	name := cache.MetaObjectToName(pod)
	if pod.Target == nil {
		t.lost(t.fleet.remove(name, time.Now()))
		return
	}
	if t.fleet.put(name, *pod.Target) {
		t.reads.Forget(name)
		t.reads.Add(name)
	}
}

func (t *term) podGone(obj any) {
	if name, err := cache.DeletionHandlingObjectToName(obj); err == nil {
		t.lost(t.fleet.remove(name, time.Now()))
	}
}

// lost has a Node looked at that has no exporter any more.
func (t *term) lost(node string, last bool) {
	if last {
		t.writes.Add(node)
	}
}

// node returns a Node as it was last heard of, nil if it is gone.
func (t *term) node(name string) *corev1.Node {
	obj, ok, err := t.nodes.GetStore().GetByKey(name)
	if !ok || err != nil {
		return nil
	}
	n, _ := obj.(*corev1.Node)
	return n
}
