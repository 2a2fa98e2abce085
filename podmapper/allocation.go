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

// allocations reads the GPUs out of the kubelet's answer, sorted. The kubelet
// lists every device in an entry of its own, in changing order; the replicas of
// a GPU that one container holds become one allocation.
func allocations(pods []*podresources.PodResources, log *slog.Logger) []gpu.Allocation {
	type key struct {
		container      gpu.Container
		resource, uuid string
	}
	held := make(map[key]map[string]bool) // the replicas
	for _, p := range pods {
		for _, c := range p.GetContainers() {
			container := gpu.Container{Namespace: p.GetNamespace(), Pod: p.GetName(), Container: c.GetName()}
			for _, d := range gpuDevices(c, log) {
				k := key{container, d.resource, d.uuid}
				if held[k] == nil {
					held[k] = make(map[string]bool, 1)
				}
				held[k][d.replica] = true
			}
		}
	}
	list := make([]gpu.Allocation, 0, len(held))
	for k, replicas := range held {
		a := gpu.Allocation{
			UUID: k.uuid, Container: k.container, Resource: k.resource,
			Sharing: gpu.SharingTimeSlicing, Replicas: len(replicas),
		}
		if replicas[""] {
			a.Sharing, a.Replicas = gpu.SharingExclusive, 1
		}
		list = append(list, a)
	}
	slices.SortFunc(list, compareAllocations)
	return list
}

// device is one GPU, or one replica of it, of a container.
type device struct{ resource, uuid, replica string }

// gpuDevices returns the devices of a container that are GPUs.
func gpuDevices(c *podresources.ContainerResources, log *slog.Logger) []device {
	var devices []device
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
			devices = append(devices, device{d.GetResourceName(), uuid, replica})
		}
	}
	return devices
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

// identify returns a copy of the allocations with pod UIDs and liveness. The
// kubelet says neither, and older ones (before 1.34) also list finished pods.
func identify(list []gpu.Allocation, known map[podName]map[string]bool, live map[string]bool) []gpu.Allocation {
	list = slices.Clone(list)
	for i := range list {
		c := &list[i].Container
		c.PodUID, list[i].Live = podUID(known[podName{c.Namespace, c.Pod}], live)
	}
	return list
}

// podUID chooses among the pods that bore a name: the one that lives, else the
// one that still has log links. With none, or several, it cannot be told which
// pod is meant: one that was just created again under its old name has no links
// yet, and its predecessor's UID would be wrong.
func podUID(known, live map[string]bool) (uid string, isLive bool) {
	var alive, linked []string
	for uid, hasLinks := range known {
		switch {
		case live[uid]:
			alive = append(alive, uid)
		case hasLinks:
			linked = append(linked, uid)
		}
	}
	switch {
	case len(alive) == 1:
		return alive[0], true
	case len(alive) == 0 && len(linked) == 1:
		return linked[0], false
	}
	return "", false
}
