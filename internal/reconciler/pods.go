package reconciler

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"

	coreinformers "k8s.io/client-go/informers/core/v1"
)

// podInformers returns one informer of all pods if workloads are wanted, otherwise
// one for each namespace in which exporters may be.
func (p *program) podInformers(kube kubernetes.Interface) []cache.SharedIndexInformer {
	namespaces := p.cfg.Labels.Exporters.Namespaces()
	if p.cfg.Enable.has(partWorkloads) {
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []cache.SharedIndexInformer
	for _, ns := range namespaces {
		informer := coreinformers.NewPodInformer(kube, ns, 0, cache.Indexers{})
		_ = informer.SetTransform(p.trim) // fails only for an informer that runs
		p.failures.Follow(informer, watch.Pods)
		all = append(all, informer)
	}
	return all
}

// trim keeps the memory of a cluster's pods small. A pod that asks for a GPU is stored
// as what the workloads keep of it: it is no exporter, and whoever looks for one meets
// another type. Of a pod that is nobody's business only the name is kept.
func (p *program) trim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if p.cfg.Enable.has(partWorkloads) {
		if kept, ok := p.workloads.Keep(pod); ok {
			return kept, nil
		}
	}
	return p.nodes.Keep(pod), nil
}
