// Package nodes labels Nodes with the identity of their GPUs, as their exporters
// tell it.
package nodes

import (
	"context"
	"flag"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
)

// Options is what the flags say of the labels.
type Options struct{}

// Register adds the flags, with their defaults.
func (o *Options) Register(_ *flag.FlagSet) {}

// Validate checks what the flag package cannot.
func (o *Options) Validate() error { return nil }

// Namespaces returns where exporters may be.
func (o *Options) Namespaces() []string { return []string{"kube-system"} }

// Cluster is how Nodes are read and written.
type Cluster struct {
	Kube kubernetes.Interface
	Pods []cache.SharedIndexInformer
}

// Nodes labels Nodes.
type Nodes struct{}

// New returns labels of which none is written yet.
func New(_ Options, _ *slog.Logger) *Nodes { return &Nodes{} }

// Run keeps the labels right until the context ends.
func (n *Nodes) Run(ctx context.Context, _ Cluster) error {
	<-ctx.Done()
	return nil
}

// TrimPod removes what is never asked of a pod.
func TrimPod(_ *corev1.Pod) {}

// Describe implements [prometheus.Collector].
func (n *Nodes) Describe(_ chan<- *prometheus.Desc) {}

// Collect implements [prometheus.Collector].
func (n *Nodes) Collect(_ chan<- prometheus.Metric) {}
