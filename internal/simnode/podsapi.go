package simnode

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	podsapi "k8s.io/kubelet/pkg/apis/pods/v1alpha1"
)

// podsAPI implements the kubelet's Pods API (Kubernetes 1.37, feature gate PodsAPI). It omits the watch, which the
// exporter does not use.
type podsAPI struct {
	podsapi.UnimplementedPodsServer
	*kubelet
}

// ListPods implements the kubelet's API.
func (k *podsAPI) ListPods(context.Context, *podsapi.ListPodsRequest) (*podsapi.ListPodsResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out podsapi.ListPodsResponse
	for _, p := range k.pods {
		out.Pods = append(out.Pods, p.marshal())
	}
	shuffle(k.random, out.Pods)
	return &out, nil
}

// GetPod implements the kubelet's API.
func (k *podsAPI) GetPod(_ context.Context, r *podsapi.GetPodRequest) (*podsapi.GetPodResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.uid == r.PodUID {
			return &podsapi.GetPodResponse{Pod: p.marshal()}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod with UID %s not found", r.PodUID)
}

// marshal encodes the fields that identify the pod as a core/v1 Pod in protobuf (k8s.io/api/core/v1/generated.proto).
// It does not use the module k8s.io/api, because this module is large and not needed otherwise.
func (p *pod) marshal() []byte {
	meta := appendField(nil, 1, p.name)           // ObjectMeta.name
	meta = appendField(meta, 3, p.spec.Namespace) // ObjectMeta.namespace
	meta = appendField(meta, 5, p.uid)            // ObjectMeta.uid
	state := appendField(nil, 1, "Running")       // PodStatus.phase
	for _, c := range p.containers {
		one := appendField(nil, 1, c.spec.Name)         // ContainerStatus.name
		one = appendField(one, 8, "containerd://"+c.id) // ContainerStatus.containerID
		state = appendField(state, 8, one)              // PodStatus.containerStatuses
	}
	return appendField(appendField(nil, 1, meta), 3, state) // Pod.metadata, Pod.status
}

func appendField[T string | []byte](to []byte, number protowire.Number, value T) []byte {
	return protowire.AppendBytes(protowire.AppendTag(to, number, protowire.BytesType), []byte(value))
}
