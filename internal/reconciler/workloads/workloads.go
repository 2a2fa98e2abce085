package workloads

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// Cluster contains the clients and the informer for workloads. The informer for pods stores the objects that
// [Workloads.Keep] returns. The caller runs the informer.
type Cluster struct {
	// Watches makes lists and watches without a timeout. The other clients have a timeout.
	Watches  apiserver.Client
	Server   watch.Server
	Metadata metadata.Interface
	Dynamic  dynamic.Interface
	Pods     cache.SharedIndexInformer
	// Failures records errors of the watches for resource claims and queues.
	Failures *watch.Failures
}

// Workloads finds the workloads of pods that request GPUs. It is a [prometheus.TransactionalGatherer] for its counters.
// It renders the series of pods and workloads only while Run runs.
type Workloads struct {
	opts  Options
	log   *slog.Logger
	diary *eventLog

	counters *prometheus.Registry
	lookups  *prometheus.CounterVec

	book   atomic.Pointer[book] // nil while Run does not run
	listed atomic.Bool          // whether all pods were listed since Run was called
}

// New returns a Workloads that is idle until Run is called.
func New(opts Options, log *slog.Logger) *Workloads {
	mustRender()
	events := newCounter(podEvents, eventNames())
	w := &Workloads{
		opts: opts, log: log,
		counters: prometheus.NewRegistry(),
		lookups:  newCounter(lookups, results()),
	}
	w.diary = &eventLog{opts: &w.opts, log: log, count: func(event string) { events.WithLabelValues(event).Inc() }}
	w.counters.MustRegister(events, w.lookups)
	return w
}

// tracers is the maximum number of concurrent requests for owners. The client's rate limit also limits these requests.
const tracers = 8

// Run follows the workloads until the context ends. It may be called again when this replica becomes the leader again.
// Each call starts without the state of earlier calls.
func (w *Workloads) Run(ctx context.Context, c Cluster) error {
	g, ctx := errgroup.WithContext(ctx)
	queue := workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[reference](time.Second, refusedFor))
	context.AfterFunc(ctx, queue.ShutDown)
	b := newBook(newRenderer(w.opts), w.opts.Retention, queue.Add)
	w.book.Store(b)
	defer w.book.Store(nil)
	defer w.listed.Store(false)
	if w.opts.Archive != nil {
		defer w.opts.Archive.Repeat(nil)
	}

	look := newLookup(c.Metadata, newKinds(c.Server), func(result string) { w.lookups.WithLabelValues(result).Inc() }, w.log)
	look.labels = w.opts.ownerLabels()
	g.Go(func() error { return w.followPods(ctx, c.Pods, b) })
	g.Go(func() error { return w.followClaims(ctx, c, b) })
	g.Go(func() error { return w.followLocalQueues(ctx, c, b) })
	g.Go(func() error { return w.sweep(ctx, b, look) })
	for range tracers {
		g.Go(func() error { return w.traceQueued(ctx, queue, look, b) })
	}
	return g.Wait()
}

// traceQueued reads the owners of the queued controllers. It reads the owners again when the cached results expire, as
// long as the controller has pods.
func (w *Workloads) traceQueued(ctx context.Context, queue workqueue.TypedRateLimitingInterface[reference], look *lookup, b *book) error {
	for {
		of, shutdown := queue.Get()
		if shutdown {
			return nil
		}
		var l *ownerChain // nil if the owner chain is no longer needed
		if b.wants(of) {
			if l = trace(ctx, of, look.controllerOf); ctx.Err() != nil || !b.putChain(of, l) {
				l = nil
			}
			w.writeNews(b)
		}
		queue.Done(of)
		switch {
		case l == nil:
			queue.Forget(of)
		case l.stopped == failed:
			queue.AddRateLimited(of)
		default:
			queue.Forget(of)
			queue.AddAfter(of, l.goodFor())
		}
	}
}

// goodFor returns the time until the owner chain is read again. The time has a random part, which spreads the requests
// for controllers whose chains were read together at the start.
func (l *ownerChain) goodFor() time.Duration {
	d := foundFor
	if l.stopped != "" {
		d = refusedFor
	}
	return d + rand.N(d/4)
}

func (w *Workloads) sweep(ctx context.Context, b *book, look *lookup) error {
	ticker := time.NewTicker(min(max(w.opts.Retention/20, time.Second), 30*time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			b.sweep()
			w.writeNews(b)
			look.forget()
		}
	}
}

// writeNews writes the workload events that were added since the last call.
func (w *Workloads) writeNews(b *book) {
	if news := b.takeNews(); w.opts.follows() {
		w.diary.writeNews(news, b.started.Add(-recently))
	}
}
