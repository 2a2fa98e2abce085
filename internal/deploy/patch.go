package deploy

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PodPatch returns the kustomize patch of a device plugin's DaemonSet without the container. It
// is a merge patch, because the list of volumes and the annotations may be missing.
func PodPatch() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "any"}, // the patch's target selects the name
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: Annotations("kustomize")},
			Spec:       corev1.PodSpec{HostPID: true, Volumes: Volumes()},
		}},
	}
}

// AddOperation is an operation of a JSON patch (RFC 6902) that adds a value.
type AddOperation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// ContainerPatch returns the kustomize patch that appends the container. A merge patch would put
// it first, and the kubelet starts containers in order: the device plugin would wait for the
// exporter's image.
func ContainerPatch() []AddOperation {
	return []AddOperation{{Op: "add", Path: "/spec/template/spec/containers/-", Value: Container(Image + Tag)}}
}

// WebPatch returns the kustomize patch that adds a web configuration from a Secret to the
// exporter's own DaemonSet.
func WebPatch(secret string) []AddOperation {
	const container = "/spec/template/spec/containers/0"
	return []AddOperation{
		{Op: "add", Path: "/spec/template/spec/volumes/-", Value: webVolume(secret)},
		{Op: "add", Path: container + "/volumeMounts/-", Value: webMount()},
		{Op: "add", Path: container + "/args/-", Value: webArg},
	}
}
