package workloads

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/component-helpers/resource"
)

// amount is a number of requested GPUs. For a claim, resource is the name of the device class.
type amount struct {
	resource string
	count    float64
}

// requests counts extended resources in the same way as the scheduler.
func (w *Workloads) requests(p *corev1.Pod) []amount {
	var amounts []amount
	for name, quantity := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		if n := quantity.Value(); n > 0 && w.isGPU(string(name)) {
			amounts = append(amounts, amount{shared(string(name)), float64(n)})
		}
	}
	slices.SortFunc(amounts, func(a, b amount) int { return cmp.Compare(a.resource, b.resource) })
	return amounts
}

// isGPU reports whether an extended resource is a GPU. A device class can also be requested as an extended resource
// (KEP-5004).
func (w *Workloads) isGPU(name string) bool {
	if class, ok := strings.CutPrefix(name, resourcev1.ResourceDeviceClassPrefix); ok {
		return w.opts.DeviceClasses.MatchString(class)
	}
	return w.opts.Resources.MatchString(name)
}

func total(lists ...[]amount) []amount {
	if len(lists) == 1 {
		return lists[0]
	}
	var sum []amount
	for _, list := range lists {
		for _, a := range list {
			i, found := slices.BinarySearchFunc(sum, a.resource, func(s amount, name string) int { return cmp.Compare(s.resource, name) })
			if !found {
				sum = slices.Insert(sum, i, amount{resource: a.resource})
			}
			sum[i].count += a.count
		}
	}
	return sum
}
