package nodes

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

const (
	reasonAllocatable   = "allocatable"
	reasonResourceSlice = "resource_slice"
	reasonLabel         = "label"
)

// gpuDrivers contains the DRA drivers for GPUs of NVIDIA, AMD and HAMi.
var gpuDrivers = []string{"gpu.nvidia.com", "gpu.amd.com", "hami-core-gpu.project-hami.io"}

// expected returns the reasons why a Node should have an exporter. It uses three sources, because each source may be
// missing. The resources of a device plugin have the quantity 0 while the plugin is down. ResourceSlices exist only
// with DRA. Labels exist only if a program or an administrator sets them.
func (t *term) expected(n *node) []string {
	var reasons []string
	if n.gpus {
		reasons = append(reasons, reasonAllocatable)
	}
	if s := t.slices.Load(); s != nil && s.on(n.Name) {
		reasons = append(reasons, reasonResourceSlice)
	}
	if slices.ContainsFunc(t.opts.Expected, func(label string) bool {
		key, value, _ := strings.Cut(label, "=")
		v, ok := n.Labels[key]
		return ok && v == value
	}) {
		reasons = append(reasons, reasonLabel)
	}
	return reasons
}

// resourceSlices counts the GPU ResourceSlices of each Node.
type resourceSlices struct {
	informer cache.SharedIndexInformer
	// first is called for a Node that gets its first slice.
	first func(node string)

	mu    sync.Mutex
	nodes map[string]int
}

// followSlices waits until the API server serves resource.k8s.io/v1, which is not enabled by default before Kubernetes
// 1.34.
func (t *term) followSlices(ctx context.Context) error {
	if !watch.Served(ctx, t.kube, resourcev1.SchemeGroupVersion.WithResource(watch.ResourceSlices), t.log) {
		return nil
	}
	s, err := t.newSlices()
	if err != nil {
		return fmt.Errorf("watch resource slices: %w", err)
	}
	t.slices.Store(s)
	s.informer.RunWithContext(ctx)
	return nil
}

func (t *term) newSlices() (*resourceSlices, error) {
	s := &resourceSlices{
		informer: watch.Informer(t.watches.ResourceSlices(), &resourcev1.ResourceSlice{}),
		first:    t.admit,
		nodes:    make(map[string]int),
	}
	_ = s.informer.SetTransform(trimSlice) // the call fails only for a running informer
	t.failures.Follow(s.informer, watch.ResourceSlices)
	_, err := s.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { s.count(obj, 1) },
		UpdateFunc: func(old, obj any) { s.count(old, -1); s.count(obj, 1) },
		DeleteFunc: func(obj any) {
			if gone, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = gone.Obj
			}
			s.count(obj, -1)
		},
	})
	return s, err
}

func trimSlice(obj any) (any, error) {
	s, ok := obj.(*resourcev1.ResourceSlice)
	if !ok {
		return obj, nil
	}
	return &resourcev1.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{Name: s.Name, UID: s.UID, ResourceVersion: s.ResourceVersion},
		Spec:       resourcev1.ResourceSliceSpec{Driver: s.Spec.Driver, NodeName: s.Spec.NodeName},
	}, nil
}

func (r *resourceSlices) count(obj any, by int) {
	s, ok := obj.(*resourcev1.ResourceSlice)
	if !ok || s.Spec.NodeName == nil || !slices.Contains(gpuDrivers, s.Spec.Driver) {
		return
	}
	if r.add(*s.Spec.NodeName, by) == 1 && by > 0 {
		r.first(*s.Spec.NodeName)
	}
}

func (r *resourceSlices) add(node string, by int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[node] += by
	count := r.nodes[node]
	if count <= 0 {
		delete(r.nodes, node)
	}
	return count
}

func (r *resourceSlices) on(node string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.nodes[node] > 0
}
