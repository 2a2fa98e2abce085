package podmapper

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"

	"github.com/gpuledger/gpuledger/internal/stage"
)

// A socket is one of the kubelet's Unix sockets. Each call opens a new connection. Calls are rare, and a restarted
// kubelet has a new socket under the same name.
type socket struct {
	path    string
	timeout time.Duration
}

// list calls a method that returns a list of pods, and calls visit with the encoding of each pod. A pod may have at
// most limit bytes. visit must not keep a reference to the bytes.
func (s socket) list(ctx context.Context, method string, request any, limit uint64, visit func(pod []byte) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	c := &codec{CodecV2: encoding.GetCodecV2("proto"), limit: limit, visit: visit}
	target := url.URL{Scheme: "unix", Path: s.path}
	conn, err := grpc.NewClient(target.String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithMaxHeaderListSize(maxHeaders),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer), grpc.ForceCodecV2(c)))
	if err != nil {
		return fmt.Errorf("connect to kubelet: %w", err)
	}
	defer conn.Close()
	err = conn.Invoke(ctx, method, request, nil)
	switch {
	case c.err != nil:
		return c.err
	case err != nil && strings.Contains(err.Error(), "message larger than max"): // the kubelet's rate limit has the same status code, so only the text distinguishes the two errors
		return fmt.Errorf("%w: %w", err, stage.ErrOversized)
	}
	return err
}

// kubelet is a client of the pod-resources API (KEP-606).
type kubelet struct{ socket }

func (k kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	// The directory still exists while the kubelet is stopped.
	if _, err := os.Stat(filepath.Dir(k.path)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no kubelet on this host: %s does not exist (in a pod, mount this directory; on a machine without Kubernetes, set --kubelet.pod-resources-socket= to an empty value)",
			filepath.Dir(k.path))
	}
	var pods []*podresources.PodResources
	var n parts
	err := k.socket.list(ctx, podresources.PodResourcesLister_List_FullMethodName, &podresources.ListPodResourcesRequest{}, maxListed, func(data []byte) error {
		pod, err := n.readListed(data)
		pods = append(pods, pod)
		return err
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, fmt.Errorf("list pod resources: this kubelet is too old and serves only v1alpha1 of the API; "+
			"v1 requires Kubernetes 1.20 or newer: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	return pods, nil
}

// podsAPI is a client of the kubelet's Pods API (Kubernetes 1.37).
type podsAPI struct{ socket }

// present reports whether the socket of the API exists. It does not suffice that the socket's directory exists, because
// a volume mount creates this directory.
func (p podsAPI) present() bool {
	if p.path == "" {
		return false
	}
	_, err := os.Stat(p.path)
	return err == nil
}

// list returns the pods in the API's response. It skips a pod whose name or UID is not well formed, because no process
// can be attributed to such a pod.
func (p podsAPI) list(ctx context.Context) ([]pod, error) {
	var pods []pod
	var n parts
	err := p.socket.list(ctx, podsapi.Pods_ListPods_FullMethodName, &podsapi.ListPodsRequest{}, maxPod, func(data []byte) error {
		pod, err := n.read(data)
		if err == nil && pod.wellFormed() {
			pods = append(pods, pod)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods, nil
}
