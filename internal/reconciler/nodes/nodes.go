package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// Cluster is how Nodes and pods are read and written. The informers hold what
// [Nodes.Keep] keeps of pods, and are run by whoever made them.
type Cluster struct {
	// Watches lists and watches, Kube makes all other requests.
	Watches, Kube kubernetes.Interface
	Pods          []cache.SharedIndexInformer
	// Record keeps the change budget; nil keeps it in memory.
	Record Record
	// Failures is told of what cannot be watched.
	Failures *watch.Failures
}

// Nodes labels Nodes. It is a [prometheus.Collector]; what is known of the cluster
// shows only while Run runs, what was counted always.
type Nodes struct {
	opts   Options
	log    *slog.Logger
	counts *counts
	term   atomic.Pointer[term]
}

// New returns labels of which none is written yet.
func New(opts Options, log *slog.Logger) *Nodes {
	return &Nodes{opts: opts, log: log, counts: newCounts()}
}

// Keep returns what is kept of a pod in memory.
func (n *Nodes) Keep(pod *corev1.Pod) metav1.Object { return n.opts.Exporters.Keep(pod) }

// Run keeps the labels right until the context ends. It may be called again after it
// returned, and then remembers nothing of the term before.
func (n *Nodes) Run(ctx context.Context, c Cluster) error {
	client := n.client(ctx)
	if client == nil {
		return nil // the term has ended
	}
	t, err := newTerm(n.opts, c, client, n.counts, n.log)
	if err != nil {
		return fmt.Errorf("label nodes: %w", err)
	}
	n.term.Store(t)
	defer n.term.Store(nil)
	return t.run(ctx)
}

// clientAgain is the time between two attempts to read the files of the client.
const clientAgain = 10 * time.Second

// client waits until there is a client of the exporters, nil if the context ends before:
// a missing certificate may be a mount that comes late.
func (n *Nodes) client(ctx context.Context) *exporter.Client {
	said := ""
	for {
		client, err := exporter.NewClient(n.opts.Exporters)
		if err == nil {
			return client
		}
		if err.Error() != said {
			said = err.Error()
			n.log.Error("no client of the exporters, will keep trying", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(clientAgain):
		}
	}
}
