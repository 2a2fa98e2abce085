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
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

type inventories interface {
	Read(context.Context, exporter.Target) (inventory.Page, error)
	ReadHealth(context.Context, exporter.Target) (health.Page, error)
}

// term is the state of this replica while it is the leader. It is lost with the leadership, so the next leader reads
// every exporter again.
type term struct {
	opts     Options
	watches  apiserver.Client
	kube     apiserver.Client
	log      *slog.Logger
	counts   *counts
	failures *watch.Failures

	client    inventories
	validator *validator.Validator
	changes   *changes
	events    record.EventRecorder

	pods   []cache.SharedIndexInformer
	owners *daemonSets
	nodes  cache.SharedIndexInformer
	slices atomic.Pointer[resourceSlices] // nil if the cluster has no ResourceSlices, or while this is unknown

	reads     workqueue.TypedRateLimitingInterface[cache.ObjectName]
	writes    workqueue.TypedRateLimitingInterface[string]
	readRate  *rate.Limiter
	writeRate *rate.Limiter

	podEvents sync.Mutex

	fleet   *fleet
	memory  *memory
	held    *set // Nodes with a change that waits for the budget
	ignored *ignored
	synced  atomic.Bool

	conditions *conditions // nil unless conditions are written
}

const (
	readAgain, readAgainMax   = time.Second, 2 * time.Minute
	writeAgain, writeAgainMax = time.Second, 5 * time.Minute
)

// writers is the number of concurrent writes. A few writes at a time suffice for the permitted rate of writes, because
// the API server responds within milliseconds.
const writers = 4

func newTerm(opts Options, c Cluster, client inventories, counts *counts, log *slog.Logger) (*term, error) {
	t := &term{
		opts: opts, watches: c.Watches, kube: c.Kube, log: log, counts: counts, failures: c.Failures,
		client: client,
		// An inventory remains valid for two resync intervals, because by then its exporter should have been read
		// again.
		validator: validator.New(opts.Rules, 2*opts.Resync),
		changes:   newChanges(c.Record, spentKey, log),
		pods:      c.Pods,
		owners:    newDaemonSets(c.Watches, opts.Exporters, c.Failures, log),
		nodes:     watch.Informer(c.Watches.Nodes(), &corev1.Node{}),
		reads: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[cache.ObjectName](readAgain, min(readAgainMax, opts.Resync))),
		writes: workqueue.NewTypedRateLimitingQueue(
			workqueue.NewTypedItemExponentialFailureRateLimiter[string](writeAgain, writeAgainMax)),
		readRate:  rate.NewLimiter(rate.Limit(opts.Rate), max(1, int(opts.Rate/10))),
		writeRate: rate.NewLimiter(rate.Limit(opts.Writes), 1),
		fleet:     newFleet(),
		memory:    newMemory(),
		held:      newSet(),
		ignored:   newIgnored(),
	}
	if opts.Condition {
		t.conditions = newConditions(c.Record, log)
	}
	if err := t.nodes.SetTransform(t.opts.keep); err != nil {
		return nil, fmt.Errorf("prepare the informer of nodes: %w", err)
	}
	t.failures.Follow(t.nodes, watch.Nodes)
	return t, nil
}

// run returns when the context ended and no write is in flight.
func (t *term) run(ctx context.Context) error {
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	defer broadcaster.Shutdown()
	defer broadcaster.StartRecordingToSink(apiserver.EventSink{Client: t.kube}).Stop()
	t.events = broadcaster.NewRecorder(apiserver.Scheme, corev1.EventSource{Component: "gpuledger-reconciler"})
	delivered, err := t.listen()
	switch {
	case ctx.Err() != nil:
		return nil // the informers for pods may have stopped already
	case err != nil:
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	for _, informer := range append(t.owners.informers, t.nodes) {
		g.Go(func() error { informer.RunWithContext(ctx); return nil })
	}
	g.Go(func() error { return t.followSlices(ctx) })
	g.Go(func() error {
		<-ctx.Done()
		t.reads.ShutDown()
		t.writes.ShutDown()
		if t.conditions != nil {
			t.conditions.queue.ShutDown()
		}
		return nil
	})
	g.Go(func() error {
		if !cache.WaitForCacheSync(ctx.Done(), delivered...) {
			return nil // the context ended
		}
		t.owners.reportMissing()
		t.synced.Store(true)
		return t.work(ctx)
	})
	return g.Wait()
}

// work writes no Node before every exporter has been read once, because until then conflicts between exporters may be
// undetected.
func (t *term) work(ctx context.Context) error {
	swept := t.fleet.sweep()
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { t.readAll(ctx); return nil })
	g.Go(func() error {
		select {
		case <-ctx.Done():
			return nil
		case <-swept:
		}
		var writing sync.WaitGroup
		for range writers {
			writing.Go(func() { each(ctx, t.writes, t.sync) })
		}
		if t.conditions != nil {
			writing.Go(func() { inLanes(ctx, newLanes(&t.opts), t.conditions.queue, t.syncCondition) })
		}
		writing.Wait()
		return nil
	})
	return g.Wait()
}

func each[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], do func(context.Context, T) bool) {
	for {
		item, stop := queue.Get()
		if stop || ctx.Err() != nil {
			return
		}
		handle(ctx, queue, item, do)
	}
}

// handle calls the function do for an item. If do returns false, the item is requeued with exponential backoff.
func handle[T comparable](ctx context.Context, queue workqueue.TypedRateLimitingInterface[T], item T, do func(context.Context, T) bool) {
	if do(ctx, item) {
		queue.Forget(item)
	} else {
		queue.AddRateLimited(item)
	}
	queue.Done(item)
}

// node returns a Node by its name, or nil if the Node does not exist.
func (t *term) node(name string) *node {
	obj, ok, err := t.nodes.GetStore().GetByKey(name)
	if !ok || err != nil {
		return nil
	}
	n, _ := obj.(*node)
	return n
}
