package podmapper

import (
	"cmp"
	"log/slog"
	"slices"
	"strings"

	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// resourcePrefix begins the names of the resources whose devices are GPUs.
const resourcePrefix = "nvidia.com/"

// devices is a set of GPUs, and of replicas of GPUs, each in the hands of a
// container of one pod.
type devices map[device]bool

// device is one GPU, or one replica of it.
type device struct{ container, resource, uuid, replica string }

// listDevices reads the GPUs out of the kubelet's answer, which lists every
// device in an entry of its own, in changing order.
func listDevices(pods []*podresources.PodResources, log *slog.Logger) map[podName]devices {
	listed := make(map[podName]devices)
	for _, p := range pods {
		name := podName{p.GetNamespace(), p.GetName()}
		for _, c := range p.GetContainers() {
			for _, d := range gpuDevices(c, log) {
				if listed[name] == nil {
					listed[name] = make(devices, 1)
				}
				listed[name][d] = true
			}
		}
	}
	return listed
}

// gpuDevices returns the devices of a container that are GPUs.
func gpuDevices(c *podresources.ContainerResources, log *slog.Logger) []device {
	var gpus []device
	for _, d := range c.GetDevices() {
		if !strings.HasPrefix(d.GetResourceName(), resourcePrefix) {
			continue
		}
		for _, id := range d.GetDeviceIds() {
			uuid, replica, ok := parseDeviceID(id)
			if !ok {
				log.Debug("device id names no GPU", "resource", d.GetResourceName(), "id", id)
				continue
			}
			gpus = append(gpus, device{c.GetName(), d.GetResourceName(), uuid, replica})
		}
	}
	return gpus
}

// allocations says who holds which GPU, sorted. The kubelet says neither the UIDs
// nor who is alive; older ones (before 1.34) also list finished pods.
func allocations(listed map[podName]devices, uids map[podName]string, live map[string]bool) []gpu.Allocation {
	list := make([]gpu.Allocation, 0, len(listed))
	for name, held := range listed {
		uid := uids[name]
		for d, replicas := range held.gpus() {
			a := gpu.Allocation{
				UUID:      d.uuid,
				Container: gpu.Container{Namespace: name.namespace, Pod: name.pod, PodUID: uid, Container: d.container},
				Resource:  d.resource,
				Sharing:   gpu.SharingTimeSlicing, Replicas: replicas,
				Live: live[uid],
			}
			if held[d] {
				a.Sharing, a.Replicas = gpu.SharingExclusive, 1
			}
			list = append(list, a)
		}
	}
	slices.SortFunc(list, compareAllocations)
	return list
}

// gpus counts the replicas of each GPU in the set.
func (held devices) gpus() map[device]int {
	replicas := make(map[device]int, len(held))
	for d := range held {
		d.replica = ""
		replicas[d]++
	}
	return replicas
}

// compareAllocations orders by GPU, then container, then resource.
func compareAllocations(a, b gpu.Allocation) int {
	return cmp.Or(
		cmp.Compare(a.UUID, b.UUID),
		cmp.Compare(a.Container.Namespace, b.Container.Namespace),
		cmp.Compare(a.Container.Pod, b.Container.Pod),
		cmp.Compare(a.Container.Container, b.Container.Container),
		cmp.Compare(a.Resource, b.Resource),
	)
}
