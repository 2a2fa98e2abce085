package nodes

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// Cluster contains the clients and informers for Nodes and pods. The informers for pods store the objects that
// [Nodes.Keep] returns. The caller runs the informers.
type Cluster struct {
	// Watches makes lists and watches, and Kube makes all other requests.
	Watches, Kube apiserver.Client
	Pods          []cache.SharedIndexInformer
	// Record stores the change budget. If it is nil, the budget is kept in memory.
	Record Record
	// Failures records the resources that cannot be watched.
	Failures *watch.Failures
}

// Nodes labels the Nodes in a cluster. It is also a [prometheus.Collector]. It always exports its counters, and exports
// the state of the cluster only while Run runs.
type Nodes struct {
	opts   Options
	log    *slog.Logger
	counts *counts
	term   atomic.Pointer[term]
}

// New returns an idle Nodes controller.
func New(opts Options, log *slog.Logger) *Nodes {
	return &Nodes{opts: opts, log: log, counts: newCounts()}
}

// Keep reduces a pod to the part that is kept in memory.
func (n *Nodes) Keep(pod *corev1.Pod) metav1.Object { return n.opts.Exporters.Keep(pod) }

// Run keeps the labels correct until the context ends. It may be called again after it has returned. Each call starts
// without the state of earlier calls.
func (n *Nodes) Run(ctx context.Context, c Cluster) error {
	client := n.client(ctx)
	if client == nil {
		return nil // the context ended
	}
	t, err := newTerm(n.opts, c, client, n.counts, n.log)
	if err != nil {
		return fmt.Errorf("label nodes: %w", err)
	}
	n.term.Store(t)
	defer n.term.Store(nil)
	return t.run(ctx)
}

const clientAgain = 10 * time.Second

// client waits until the exporter client can be created, because a certificate may be mounted late. It returns nil if
// the context ends first.
func (n *Nodes) client(ctx context.Context) *exporter.Client {
	logged := ""
	for {
		client, err := exporter.NewClient(n.opts.Exporters)
		if err == nil {
			return client
		}
		if err.Error() != logged {
			logged = err.Error()
			n.log.Error("cannot create the client for exporters, will retry", "err", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(clientAgain):
		}
	}
}
