package podmapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// errNoKubelet says that this host has no kubelet, which is no outage.
var errNoKubelet = errors.New("no kubelet on this host")

// maxAnswer bounds the kubelet's answer, in bytes. A node with many pods passes
// gRPC's default of 4 MiB.
const maxAnswer = 64 << 20

// kubelet is a client of the pod-resources API (KEP-606) at a unix socket. It is
// not safe for concurrent use.
type kubelet struct {
	socket  string
	timeout time.Duration
	// seen is set once the socket or its directory was there.
	seen bool
}

// list asks the kubelet which devices its containers hold. Each call makes a
// connection of its own: a new kubelet has a new socket under the old name, and
// at one call in ten seconds there is nothing to gain from keeping the old one.
func (k *kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	if !k.present() {
		return nil, fmt.Errorf("%w: %s does not exist", errNoKubelet, filepath.Dir(k.socket))
	}
	ctx, cancel := context.WithTimeout(ctx, k.timeout)
	defer cancel()
	target := url.URL{Scheme: "unix", Path: k.socket}
	conn, err := grpc.NewClient(target.String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return nil, fmt.Errorf("connect to kubelet: %w", err)
	}
	defer conn.Close()
	answer, err := podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	return answer.GetPodResources(), nil
}

// present reports whether the host has a kubelet, or ever had one since we
// started. A kubelet that is merely down leaves its directory behind.
func (k *kubelet) present() bool {
	if !k.seen {
		_, err := os.Stat(filepath.Dir(k.socket))
		k.seen = !errors.Is(err, fs.ErrNotExist)
	}
	return k.seen
}
