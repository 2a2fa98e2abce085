package workloads

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// claimNames returns the names of a pod's claims. The name of a claim that is created from a template is in the pod's
// status. Claims that the scheduler creates for extended resources are omitted, because the resources themselves are
// counted.
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

type claim struct {
	metav1.ObjectMeta
	// gpu is set if the claim requests a GPU, even if the number of GPUs is still unknown.
	gpu     bool
	amounts []amount
}

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
			// The request lists alternatives. The allocation shows which alternative was selected.
			w.addRequest(c, sub.DeviceClassName, resourcev1.DeviceAllocationModeAll, 0, allocated(from, r.Name+"/"+sub.Name))
		}
	}
	return c
}

// addRequest adds the GPUs of a request to a claim. In the mode "all", the number of devices is known only after the
// allocation.
func (w *Workloads) addRequest(c *claim, class string, mode resourcev1.DeviceAllocationMode, count, allocated int64) {
	if !w.opts.DeviceClasses.MatchString(class) {
		return
	}
	c.gpu = true
	if mode == resourcev1.DeviceAllocationModeAll {
		count = allocated
	}
	if count > 0 {
		c.amounts = append(c.amounts, amount{shared(class), float64(count)})
	}
}

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

// putClaim stores the current state of a claim. It returns the pods for which the claim is the first known GPU request.
func (b *book) putClaim(c *claim) []*pod {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := claimKey{c.Namespace, c.Name}
	b.claims[k] = c
	delete(b.gone, k)
	var fresh []*pod
	for e := range b.users[k] {
		if was := e.gpu; b.settle(e) && !was {
			fresh = append(fresh, e.pod)
		}
	}
	return fresh
}

// removeClaim removes a deleted claim if no pod refers to the claim. Otherwise removeUser removes the claim later. A
// claim is often deleted while its pod still has series.
func (b *book) removeClaim(c *claim) {
	b.mu.Lock()
	defer b.mu.Unlock()
	k := claimKey{c.Namespace, c.Name}
	if len(b.users[k]) == 0 {
		delete(b.claims, k)
		return
	}
	b.gone[k] = true
}

func (b *book) addUser(e *entry, claims []string) {
	for _, name := range claims {
		k := claimKey{e.pod.namespace, name}
		if b.users[k] == nil {
			b.users[k] = make(entries, 1)
		}
		b.users[k][e] = struct{}{}
	}
}

func (b *book) removeUser(e *entry, claims []string) {
	for _, name := range claims {
		k := claimKey{e.pod.namespace, name}
		delete(b.users[k], e)
		if len(b.users[k]) > 0 {
			continue
		}
		delete(b.users, k)
		if b.gone[k] {
			delete(b.gone, k)
			delete(b.claims, k)
		}
	}
}
