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
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// maxAnswer bounds the kubelet's answer, in bytes. A node with many pods passes
// gRPC's default of 4 MiB.
const maxAnswer = 64 << 20

// socket is one of the kubelet's unix sockets. Each call makes a connection of its
// own: a new kubelet has a new socket under the old name, and at one call in ten
// seconds there is nothing to gain from keeping the old one.
type socket struct {
	path    string
	timeout time.Duration
}

// call connects, and makes one call in the time there is for it.
func (s socket) call(ctx context.Context, call func(context.Context, *grpc.ClientConn) error) error {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	target := url.URL{Scheme: "unix", Path: s.path}
	conn, err := grpc.NewClient(target.String(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxAnswer)))
	if err != nil {
		return fmt.Errorf("connect to kubelet: %w", err)
	}
	defer conn.Close()
	return call(ctx, conn)
}

// kubelet is a client of the pod-resources API (KEP-606).
type kubelet struct{ socket }

// list asks the kubelet which devices its containers hold.
func (k kubelet) list(ctx context.Context) ([]*podresources.PodResources, error) {
	// A kubelet that is merely down leaves its folder behind.
	if _, err := os.Stat(filepath.Dir(k.path)); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no kubelet on this host: %s does not exist (in a pod, mount it; on a machine without Kubernetes, say so by an empty --kubelet.pod-resources-socket=)",
			filepath.Dir(k.path))
	}
	var answer *podresources.ListPodResourcesResponse
	err := k.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) (err error) {
		answer, err = podresources.NewPodResourcesListerClient(conn).List(ctx, &podresources.ListPodResourcesRequest{})
		return err
	})
	if status.Code(err) == codes.Unimplemented {
		return nil, fmt.Errorf("list pod resources: this kubelet is too old, it has the API's version v1alpha1 only; "+
			"version v1 needs Kubernetes 1.20 or newer: %w", err)
	}
	if err != nil {
		return nil, fmt.Errorf("list pod resources: %w", err)
	}
	return answer.GetPodResources(), nil
}

// podsAPI is a client of the kubelet's Pods API, which came with Kubernetes 1.37.
type podsAPI struct{ socket }

// present reports whether the kubelet has that API. Its directory proves nothing:
// whoever mounts it makes it.
func (p podsAPI) present() bool {
	if p.path == "" {
		return false
	}
	_, err := os.Stat(p.path)
	return err == nil
}

// list asks the kubelet for its pods.
func (p podsAPI) list(ctx context.Context) ([]pod, error) {
	var pods []pod
	err := p.call(ctx, func(ctx context.Context, conn *grpc.ClientConn) error {
		return conn.Invoke(ctx, podsapi.Pods_ListPods_FullMethodName, &podsapi.ListPodsRequest{}, &pods,
			grpc.ForceCodecV2(podCodec{encoding.GetCodecV2("proto")}))
	})
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	return pods, nil
}

// podCodec reads the answer of the Pods API where it lies. The library would copy
// each pod first, which on a big node is 10 MB for what comes to a few names.
type podCodec struct{ encoding.CodecV2 }

// Unmarshal reads a ListPodsResponse: pods = 1. A pod that cannot be read spoils the
// answer, since what is missing from it counts as gone. One that can be read, but not
// be found again, is passed over.
func (podCodec) Unmarshal(data mem.BufferSlice, v any) error {
	buffer := data.MaterializeToBuffer(mem.DefaultBufferPool())
	defer buffer.Free()
	pods := v.(*[]pod)
	return eachField(buffer.ReadOnlyData(), func(n protowire.Number, value []byte) error {
		if n != 1 {
			return nil
		}
		p, err := parsePod(value)
		if err != nil {
			return fmt.Errorf("read a pod: %w", err)
		}
		if p.wellFormed() {
			*pods = append(*pods, p)
		}
		return nil
	})
}
