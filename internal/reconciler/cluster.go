package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/common/version"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
)

type cluster struct {
	// watches and dynamic make only lists and watches, which can last for minutes and therefore have no timeout.
	watches apiserver.Client
	dynamic dynamic.Interface
	// kube, kinds and metadata make all other requests, with the timeout requestTimeout.
	kube     apiserver.Client
	kinds    apiserver.Client
	metadata metadata.Interface
}

// requestTimeout ends hanging requests, which would otherwise stop all writes.
const requestTimeout = 15 * time.Second

const connectAgain = 10 * time.Second

// connect retries until it can read the kubeconfig file or the pod's service account, because these files may be
// mounted late.
func connect(ctx context.Context, kubeconfig string, log *slog.Logger) (cluster, error) {
	logged := ""
	for {
		c, err := open(kubeconfig)
		if err == nil {
			return c, nil
		}
		if err.Error() != logged {
			logged = err.Error()
			log.Error("cannot prepare the connection to the API server, will retry", "err", err)
		}
		pause(ctx, connectAgain)
		if err := ctx.Err(); err != nil {
			return cluster{}, err
		}
	}
}

func open(kubeconfig string) (cluster, error) {
	cfg, err := rest.InClusterConfig()
	if kubeconfig != "" {
		cfg, err = clientcmd.BuildConfigFromFlags("", kubeconfig)
	}
	if err != nil {
		return cluster{}, fmt.Errorf("read the kubeconfig: %w", err)
	}
	return clients(cfg)
}

func clients(cfg *rest.Config) (cluster, error) {
	cfg.UserAgent = "gpuledger-reconciler/" + version.Version
	cfg.QPS, cfg.Burst = 50, 100 // the controllers limit their writes separately
	// Decoding all pods of a cluster takes much less CPU time with Protobuf than with JSON.
	cfg.ContentType = runtime.ContentTypeProtobuf
	cfg.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	watches, err := apiserver.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("create the watch client: %w", err)
	}
	dyn, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("create the dynamic client: %w", err)
	}
	cfg.Timeout = requestTimeout
	kube, err := apiserver.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("create the client: %w", err)
	}
	// The limit is high, because a new leader makes thousands of small requests to read the owners of all pods. A pod
	// has no series until its owners have been read. API Priority and Fairness in the API server also limits these
	// requests. Users cause these requests by creating pods. A separate client makes the requests, so that they do not
	// delay the client kube, which renews the Lease.
	cfg.QPS, cfg.Burst = 200, 400
	kinds, err := apiserver.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("create the client for kinds: %w", err)
	}
	meta, err := metadata.NewForConfig(cfg)
	if err != nil {
		return cluster{}, fmt.Errorf("create the metadata client: %w", err)
	}
	return cluster{watches: watches, dynamic: dyn, kube: kube, kinds: kinds, metadata: meta}, nil
}
