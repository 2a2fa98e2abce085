package simnode

import (
	"context"
	"math/rand/v2"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

// podResources implements the kubelet's pod-resources API. A response contains one entry per device. As in the kubelet,
// the order of the entries changes between calls (KEP-606).
type podResources struct {
	v1.UnimplementedPodResourcesListerServer
	*kubelet
}

// List implements the kubelet's API.
func (k *podResources) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
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
func (k *podResources) Get(_ context.Context, r *v1.GetPodResourcesRequest) (*v1.GetPodResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, p := range k.pods {
		if p.name == r.PodName && p.spec.Namespace == r.PodNamespace {
			return &v1.GetPodResourcesResponse{PodResources: k.resources(p)}, nil
		}
	}
	return nil, status.Errorf(codes.NotFound, "pod %s in namespace %s not found", r.PodName, r.PodNamespace)
}

// GetAllocatableResources implements the kubelet's API. It returns only devices from device plugins.
func (k *podResources) GetAllocatableResources(context.Context, *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.scenario.Claims) > 0 {
		return &v1.AllocatableResourcesResponse{}, nil
	}
	var all []Device
	for i := range k.scenario.GPUs {
		all = append(all, Parts(i, k.scenario.GPUs[i].offered(k.at)...)...)
	}
	return &v1.AllocatableResourcesResponse{Devices: k.devices(all)}, nil
}

func (k *podResources) resources(p *pod) *v1.PodResources {
	r := &v1.PodResources{Name: p.name, Namespace: p.spec.Namespace}
	for _, c := range p.containers {
		described := &v1.ContainerResources{Name: c.spec.Name, Devices: k.devices(c.spec.Devices)}
		for _, i := range c.spec.Claims {
			described.DynamicResources = append(described.DynamicResources, k.claim(&k.scenario.Claims[i]))
		}
		r.Containers = append(r.Containers, described)
	}
	return r
}

func (k *podResources) devices(devices []Device) []*v1.ContainerDevices {
	var out []*v1.ContainerDevices
	for _, d := range devices {
		g := &k.scenario.GPUs[d.GPU]
		resource, id := g.resource(d.Part), k.scenario.deviceID(d)
		if k.scenario.GooglePlugin {
			resource, id = "nvidia.com/gpu", g.nodeID(d.GPU, d.Part)
		}
		out = append(out, &v1.ContainerDevices{ResourceName: resource, DeviceIds: []string{id}})
	}
	shuffle(k.random, out)
	return out
}

// The entry for a resource claim does not show whether the claim has admin access. Each device also lists the CDI
// devices of all earlier devices, as in the kubelet (GetDynamicResources in its container manager).
func (k *podResources) claim(c *Claim) *v1.DynamicResource {
	out := &v1.DynamicResource{ClaimName: c.Name, ClaimNamespace: c.Namespace}
	uid := uuid(k.scenario.Name, "claim", c.Namespace, c.Name)
	var cdi []*v1.CDIDevice
	for _, d := range c.Devices {
		name := k.scenario.GPUs[d.GPU].draName(d.GPU, d.Part)
		cdi = append(cdi, &v1.CDIDevice{Name: "k8s.gpu.nvidia.com/claim=" + uid + "-" + name})
		out.ClaimResources = append(out.ClaimResources, &v1.ClaimResource{
			CdiDevices: cdi, DriverName: "gpu.nvidia.com", PoolName: k.scenario.Node, DeviceName: name,
		})
	}
	return out
}

func shuffle[T any](random *rand.Rand, s []T) {
	random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
}
