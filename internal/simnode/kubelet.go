package simnode

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// resource is the extended resource of whole GPUs.
const resource = "nvidia.com/gpu"

// maxSocketPath is what fits into sockaddr_un with its closing NUL.
const maxSocketPath = 107

// kubelet serves pod resources on a unix socket as the kubelet does: one entry
// per device, in an order that changes from call to call (KEP-606).
type kubelet struct {
	v1.UnimplementedPodResourcesListerServer
	server *grpc.Server
	served chan error // the end of Serve
	gpus   []GPU

	mu     sync.Mutex
	pods   []*pod
	random *rand.Rand
}

// openKubelet serves on a socket until it is closed.
func openKubelet(socket string, gpus []GPU) (*kubelet, error) {
	if len(socket) > maxSocketPath {
		return nil, fmt.Errorf("socket path %s is %d bytes long, %d are possible: choose a shorter directory",
			socket, len(socket), maxSocketPath)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return nil, err
	}
	k := &kubelet{server: grpc.NewServer(), served: make(chan error, 1), gpus: gpus, random: rand.New(rand.NewPCG(3, 4))}
	v1.RegisterPodResourcesListerServer(k.server, k)
	go func() { k.served <- k.server.Serve(listener) }()
	return k, nil
}

// close ends the server and removes the socket.
func (k *kubelet) close() error {
	k.server.Stop()
	if err := <-k.served; !errors.Is(err, grpc.ErrServerStopped) {
		return err
	}
	return nil
}

// set replaces the pods that are known.
func (k *kubelet) set(pods []*pod) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pods = append([]*pod(nil), pods...)
}

// List implements the kubelet's API.
func (k *kubelet) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out v1.ListPodResourcesResponse
	for _, p := range k.pods {
		out.PodResources = append(out.PodResources, k.resources(p))
	}
	shuffle(k.random, out.PodResources)
	return &out, nil
}

// Get implements the kubelet's API.
func (k *kubelet) Get(_ context.Context, r *v1.GetPodResourcesRequest) (*v1.GetPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.name == r.PodName && p.spec.Namespace == r.PodNamespace {
			return &v1.GetPodResourcesResponse{PodResources: k.resources(p)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

// GetAllocatableResources implements the kubelet's API.
func (k *kubelet) GetAllocatableResources(context.Context, *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := make([]int, len(k.gpus))
	for i := range all {
		all[i] = i
	}
	return &v1.AllocatableResourcesResponse{Devices: k.devices(all)}, nil
}

// resources describes a pod.
func (k *kubelet) resources(p *pod) *v1.PodResources {
	r := &v1.PodResources{Name: p.name, Namespace: p.spec.Namespace}
	for _, c := range p.containers {
		r.Containers = append(r.Containers, &v1.ContainerResources{Name: c.Container.Container, Devices: k.devices(c.devices)})
	}
	return r
}

// devices describes GPUs.
func (k *kubelet) devices(gpus []int) []*v1.ContainerDevices {
	var out []*v1.ContainerDevices
	for _, g := range gpus {
		out = append(out, &v1.ContainerDevices{ResourceName: resource, DeviceIds: []string{k.gpus[g].UUID}})
	}
	shuffle(k.random, out)
	return out
}

func shuffle[T any](random *rand.Rand, s []T) {
	random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
