// Package watch waits for resources that the API server may not serve. It also logs and counts failed attempts to list
// or watch a resource, which the informers repeat with backoff.
package watch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/metric"
)

// These are the names of resources in the paths of the Kubernetes API.
const (
	ConfigMaps     = "configmaps"
	DaemonSets     = "daemonsets"
	LocalQueues    = "localqueues"
	Nodes          = "nodes"
	Pods           = "pods"
	ResourceClaims = "resourceclaims"
	ResourceSlices = "resourceslices"
	Secrets        = "secrets"
	Webhooks       = "mutatingwebhookconfigurations"
)

// Client lists and watches one resource. The clients of client-go for pods, Nodes and so on implement it. L is a list,
// such as [corev1.PodList].
type Client[L runtime.Object] interface {
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Informer returns an informer for the objects of a client. The argument object, such as an empty pod, determines their
// type. The informers of client-go do the same, but importing them compiles the informers of all resources of
// Kubernetes.
func Informer[L runtime.Object](client Client[L], object runtime.Object, limits ...func(*metav1.ListOptions)) cache.SharedIndexInformer {
	limited := func(options metav1.ListOptions) metav1.ListOptions {
		for _, limit := range limits {
			limit(&options)
		}
		return options
	}
	return cache.NewSharedIndexInformer(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			return client.List(ctx, limited(options))
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return client.Watch(ctx, limited(options))
		},
	}, object, 0, cache.Indexers{})
}

// Named limits an informer to the object with the given name.
func Named(name string) func(*metav1.ListOptions) {
	return func(options *metav1.ListOptions) {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
}

var resources = []string{ConfigMaps, DaemonSets, LocalQueues, Nodes, Pods, ResourceClaims, ResourceSlices, Secrets, Webhooks}

// Metric counts failed lists and watches.
var Metric = metric.Metric{
	Family: "Replicas", Name: "gpuledger_reconciler_watch_failures_total", Type: prometheus.CounterValue,
	Labels: []string{"resource"},
	Help:   "Failed attempts to list or watch a resource.",
}

// Label describes the label of [Metric].
var Label = metric.Label{Name: "resource", Help: "Resource that could not be listed or watched.", Values: resources, Complete: true}

// quiet is the time without failures after which a failure is logged again. It is longer than the informers' backoff.
const quiet = 10 * time.Minute

// Failures counts failed lists and watches, and logs each failure once. It is a [prometheus.Collector] and safe for
// concurrent use.
type Failures struct {
	*prometheus.CounterVec
	log *slog.Logger

	mu     sync.Mutex
	logged map[string]failure
}

type failure struct {
	text string
	at   time.Time
}

// New returns a Failures. Its counters start at 0.
func New(log *slog.Logger) *Failures {
	f := &Failures{
		CounterVec: prometheus.NewCounterVec(prometheus.CounterOpts{Name: Metric.Name, Help: Metric.Help}, Metric.Labels),
		log:        log, logged: make(map[string]failure),
	}
	for _, r := range resources {
		f.WithLabelValues(r)
	}
	return f
}

// Follow records the failures of an informer. The informer must not be running yet.
func (f *Failures) Follow(informer cache.SharedIndexInformer, resource string) {
	// This call fails only for a running informer.
	_ = informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) { f.failed(resource, err) })
}

func (f *Failures) failed(resource string, err error) {
	// A watch that ends or expires is normal.
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
		return
	}
	f.WithLabelValues(resource).Inc()
	if f.news(resource, err.Error(), time.Now()) {
		f.log.Warn("cannot watch resource, will retry", "resource", resource, "err", err)
	}
}

func (f *Failures) news(resource, text string, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	last := f.logged[resource]
	f.logged[resource] = failure{text, now}
	return last.text != text || now.Sub(last.at) > quiet
}
