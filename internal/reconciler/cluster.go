package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/common/version"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// cluster is the API server as the parts use it.
type cluster struct {
	// watches lists and watches. A watch lasts for minutes, so it has no timeout.
	watches kubernetes.Interface
	// kube and metadata make all other requests, each within requestTimeout.
	kube     kubernetes.Interface
	metadata metadata.Interface
}

// requestTimeout ends a request that hangs. Otherwise as many of these as there are
// writers would stop all writes.
const requestTimeout = 15 * time.Second

// connectAgain is the time between two attempts to find the API server.
const connectAgain = 10 * time.Second

// connect waits until it is known where the API server is and how to log in: a
// missing or broken kubeconfig may be a mount that comes late.
func connect(ctx context.Context, kubeconfig string, log *slog.Logger) (cluster, error) {
	said := ""
	for {
		c, err := open(kubeconfig)
		if err == nil {
			return c, nil
		}
		if err.Error() != said {
			said = err.Error()
			log.Error("not connected, will keep trying", "err", err)
		}
		select {
		case <-ctx.Done():
			return cluster{}, ctx.Err()
		case <-time.After(connectAgain):
		}
	}
}

func open(kubeconfig string) (cluster, error) {
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return cluster{}, fmt.Errorf("read how to reach the API server: %w", err)
	}
	return clients(cfg)
}

func clients(cfg *rest.Config) (cluster, error) {
	cfg.UserAgent = "gpuledger-reconciler/" + version.Version
	cfg.QPS, cfg.Burst = 50, 100 // writes have a limit of their own
	// A cluster's pods take a fraction of the work that JSON takes.
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	watches, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("make a watching client of the API server: %w", err)
	}
	cfg.Timeout = requestTimeout
	kube, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("make a client of the API server: %w", err)
	}
	// After a hand-over pods have no series before their owners are read: thousands of
	// small reads, which the API server's own fairness keeps in bounds.
	cfg.QPS, cfg.Burst = 200, 400
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("make a metadata client of the API server: %w", err)
	}
	return cluster{watches: watches, kube: kube, metadata: meta}, nil
}
