package reconciler

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/apiserver"
	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// podInformers returns one informer for all pods if the part "workloads" is enabled. Otherwise it returns an informer
// for each namespace with exporters.
func (p *program) podInformers(kube apiserver.Client) []cache.SharedIndexInformer {
	namespaces := p.cfg.Labels.Exporters.Namespaces()
	if p.cfg.runs(partWorkloads) {
		namespaces = []string{metav1.NamespaceAll}
	}
	var all []cache.SharedIndexInformer
	for _, ns := range namespaces {
		informer := watch.Informer(kube.Pods(ns), &corev1.Pod{})
		_ = informer.SetTransform(p.trim) // the call fails only for a running informer
		p.failures.Follow(informer, watch.Pods)
		all = append(all, informer)
	}
	return all
}

// trim reduces a pod to the data that the program needs, because all pods of a cluster are in memory. It keeps the data
// for package workloads if the pod may request a GPU and is not an exporter's pod. Otherwise it keeps the data for
// package nodes.
func (p *program) trim(obj any) (any, error) {
	pod, ok := obj.(*corev1.Pod)
	if !ok {
		return obj, nil
	}
	if p.cfg.runs(partWorkloads) {
		if kept, ok := p.workloads.Keep(pod); ok && !p.exports(pod) {
			return kept, nil
		}
	}
	return p.nodes.Keep(pod), nil
}

// exports reports whether a pod contains the exporter. The pod need not be scheduled yet.
func (p *program) exports(pod *corev1.Pod) bool {
	placed := *pod
	placed.Spec.NodeName = cmp.Or(pod.Spec.NodeName, "any")
	_, ok := p.cfg.Labels.Exporters.Target(&placed)
	return ok && p.cfg.runs(partLabels)
}
