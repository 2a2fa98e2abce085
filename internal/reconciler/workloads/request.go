package workloads

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// ask is how much of a resource a pod asks for. The resource of a claim is the name
// of its device class.
type ask struct {
	resource string
	count    float64
}

// requests returns what the pod asks for by extended resources, counted as the
// scheduler does: containers and sidecars together, or the largest init container
// with the sidecars before it, if that is more.
func (w *Workloads) requests(p *corev1.Pod) []ask {
	var asks []ask
	for name, quantity := range resource.PodRequests(p, resource.PodResourcesOptions{}) {
		if n := quantity.Value(); n > 0 && w.isGPU(string(name)) {
			asks = append(asks, ask{w.words.one(string(name)), float64(n)})
		}
	}
	slices.SortFunc(asks, func(a, b ask) int { return cmp.Compare(a.resource, b.resource) })
	return asks
}

// isGPU reports whether a resource is one of GPUs. A device class can be asked for
// as a resource too (KEP-5004).
func (w *Workloads) isGPU(name string) bool {
	if class, ok := strings.CutPrefix(name, resourcev1.ResourceDeviceClassPrefix); ok {
		return w.opts.DeviceClasses.MatchString(class)
	}
	return w.opts.Resources.MatchString(name)
}

// claimNames returns the names of the claims that the pod refers to. One made from a
// template has its name in the pod's status once it is made. Those that the scheduler
// makes for extended resources are not among them, for the resources are counted.
func claimNames(p *corev1.Pod) []string {
	var names []string
	add := func(name *string) {
		if name != nil && *name != "" && !slices.Contains(names, *name) {
			names = append(names, *name)
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		add(c.ResourceClaimName)
	}
	for _, c := range p.Status.ResourceClaimStatuses {
		add(c.ResourceClaimName)
	}
	return names
}

// claim is what is kept of a resource claim.
type claim struct {
	metav1.ObjectMeta
	// gpu is set if the claim asks for a GPU, even if it cannot be told yet how many.
	gpu  bool
	asks []ask
}

// claimKey names a claim.
type claimKey struct{ namespace, name string }

func (w *Workloads) keepClaim(from *resourcev1.ResourceClaim) *claim {
	c := &claim{ObjectMeta: metav1.ObjectMeta{
		Name: from.Name, Namespace: from.Namespace, UID: from.UID, ResourceVersion: from.ResourceVersion,
	}}
	for _, r := range from.Spec.Devices.Requests {
		if e := r.Exactly; e != nil && (e.AdminAccess == nil || !*e.AdminAccess) {
			w.addRequest(c, e.DeviceClassName, e.AllocationMode, e.Count, allocated(from, r.Name))
		}
		for _, sub := range r.FirstAvailable {
			// Which of the alternatives is meant is known by what was allocated.
			w.addRequest(c, sub.DeviceClassName, resourcev1.DeviceAllocationModeAll, 0, allocated(from, r.Name+"/"+sub.Name))
		}
	}
	return c
}

// addRequest adds one request of a claim. How many devices "all" are is known once
// they are allocated.
func (w *Workloads) addRequest(c *claim, class string, mode resourcev1.DeviceAllocationMode, count, allocated int64) {
	if !w.opts.DeviceClasses.MatchString(class) {
		return
	}
	c.gpu = true
	if mode == resourcev1.DeviceAllocationModeAll {
		count = allocated
	}
	if count > 0 {
		c.asks = append(c.asks, ask{w.words.one(class), float64(count)})
	}
}

// allocated returns how many devices a request of the claim was given.
func allocated(c *resourcev1.ResourceClaim, request string) int64 {
	if c.Status.Allocation == nil {
		return 0
	}
	var n int64
	for _, result := range c.Status.Allocation.Devices.Results {
		if result.Request == request {
			n++
		}
	}
	return n
}

// total adds up what is asked for, by resource.
func total(lists ...[]ask) []ask {
	if len(lists) == 1 {
		return lists[0]
	}
	var sum []ask
	for _, list := range lists {
		for _, a := range list {
			i, found := slices.BinarySearchFunc(sum, a.resource, func(s ask, name string) int { return cmp.Compare(s.resource, name) })
			if !found {
				sum = slices.Insert(sum, i, ask{resource: a.resource})
			}
			sum[i].count += a.count
		}
	}
	return sum
}
