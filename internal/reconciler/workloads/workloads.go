package workloads

import (
	"context"
	"flag"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/collector"
)

// Options is what the flags say of the workloads.
type Options struct {
	Retention time.Duration
}

// Register adds the flags, with their defaults.
func (o *Options) Register(fs *flag.FlagSet) {
	fs.DurationVar(&o.Retention, "retention", 5*time.Minute, "`time` that the series of a pod stay after it ended; at least three scrape intervals")
}

// Validate checks what the flag package cannot.
func (o *Options) Validate() error { return nil }

// Cluster is how the workloads are read. The informer holds every pod of the
// cluster, cut down by [Workloads.Trim]; it is run by whoever made it.
type Cluster struct {
	Kube     kubernetes.Interface
	Metadata metadata.Interface
	Pods     cache.SharedIndexInformer
}

// Workloads follows the pods that ask for GPUs. It is a [prometheus.Collector] that
// shows nothing while Run does not run.
type Workloads struct {
	opts Options
	log  *slog.Logger
}

// New returns workloads that nobody follows yet.
func New(opts Options, log *slog.Logger) *Workloads { return &Workloads{opts: opts, log: log} }

// Run follows the workloads until the context ends. It may be called again after it
// returned: this replica may lead more than once.
func (w *Workloads) Run(ctx context.Context, _ Cluster) error {
	<-ctx.Done()
	return nil
}

// Trim removes what is never asked of a pod before it is stored, and reports whether
// the pod is one that asks for GPUs. Of such a pod it leaves what an exporter's
// discovery needs: metadata, owners, node, containers' names, ports and states,
// conditions, IPs. It is called by one goroutine at a time, before and while Run runs.
func (w *Workloads) Trim(_ *corev1.Pod) bool { return false }

// Describe implements [prometheus.Collector].
func (w *Workloads) Describe(_ chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (w *Workloads) Collect(_ chan<- prometheus.Metric) {}

// Catalogue returns every metric of this package.
func Catalogue() []collector.Metric { return nil }

// Labels returns every label of the catalogue's metrics.
func Labels() []collector.Label { return nil }
