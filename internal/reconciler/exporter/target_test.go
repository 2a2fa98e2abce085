package exporter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

// sidecar returns a device plugin's pod that also contains the exporter. The function edit changes the pod.
func sidecar(edit func(*corev1.Pod)) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "kube-system", Name: "plugin-x7q2", UID: "u1", ResourceVersion: "17", Labels: map[string]string{"app": "plugin"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "DaemonSet", Name: "nvidia-device-plugin-daemonset", UID: "d1", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "gpu-node-17", Containers: []corev1.Container{
			{Name: "nvidia-device-plugin"},
			{Name: "gpuledger", Ports: []corev1.ContainerPort{{Name: "other", ContainerPort: 1}, {Name: "gpuledger", ContainerPort: 9841}}},
		}},
		Status: corev1.PodStatus{PodIP: "10.0.0.7", ContainerStatuses: []corev1.ContainerStatus{
			{Name: "nvidia-device-plugin", Ready: true, ContainerID: "containerd://1"},
			{Name: "gpuledger", Ready: true, ContainerID: "containerd://2"},
		}},
	}
	if edit != nil {
		edit(pod)
	}
	return pod
}

func TestOf(t *testing.T) {
	const run = "u1/containerd://2"
	daemonSet := exporter.DaemonSet{Namespace: "kube-system", Name: "nvidia-device-plugin-daemonset"}
	found := func(run, address string) *exporter.Target {
		return &exporter.Target{Node: "gpu-node-17", DaemonSet: daemonSet, DaemonSetUID: "d1", Run: run, Address: address}
	}
	tests := []struct {
		name string
		edit func(*corev1.Pod)
		want *exporter.Target
	}{
		{"sidecar", nil, found(run, "10.0.0.7:9841")},
		{"no port", func(p *corev1.Pod) { p.Spec.Containers[1].Ports = nil }, found(run, "10.0.0.7:9840")},
		{"IPv6", func(p *corev1.Pod) { p.Status.PodIP = "fd00::7" }, found(run, "[fd00::7]:9841")},
		{"another container is not ready", func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Ready = false }, found(run, "10.0.0.7:9841")},
		{"not ready", func(p *corev1.Pod) { p.Status.ContainerStatuses[1].Ready = false }, found(run, "")},
		{"no IP", func(p *corev1.Pod) { p.Status.PodIP = "" }, found(run, "")},
		{"no status", func(p *corev1.Pod) { p.Status = corev1.PodStatus{} }, found("", "")},
		{"going", func(p *corev1.Pod) { p.DeletionTimestamp = new(metav1.Now()) }, found(run, "")},
		{"not scheduled", func(p *corev1.Pod) { p.Spec.NodeName = "" }, nil},
		{"another namespace", func(p *corev1.Pod) { p.Namespace = "research" }, nil},
		{"another DaemonSet", func(p *corev1.Pod) { p.OwnerReferences[0].Name = "mine" }, nil},
		{"another kind", func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "ReplicaSet" }, nil},
		{"no controller", func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, nil},
		{"no owner", func(p *corev1.Pod) { p.OwnerReferences = nil }, nil},
		{"no such container", func(p *corev1.Pod) { p.Spec.Containers[1].Name = "gpuledger-2" }, nil},
	}
	o := options(t, "--exporter.daemonsets=kube-system/nvidia-device-plugin-daemonset")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := o.Keep(sidecar(tt.edit))
			if diff := cmp.Diff(tt.want, got.Target); diff != "" {
				t.Errorf("target (-want +got):\n%s", diff)
			}
			if got.Name != "plugin-x7q2" || got.UID != "u1" || got.ResourceVersion != "17" || got.Labels != nil || got.OwnerReferences != nil {
				t.Errorf("kept: %+v", got.ObjectMeta)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	o := options(t, "--exporter.daemonsets=b/x, a/y,b/z")
	if diff := cmp.Diff([]string{"a", "b"}, o.Namespaces()); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}
