package deploy

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// PodPatch returns the kustomize patch for a device plugin's DaemonSet, without the exporter's container. It is a merge
// patch, because the DaemonSet may have no list of volumes and no annotations.
func PodPatch() *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: "any"}, // kustomize ignores this name, because the patch has a target
		Spec: appsv1.DaemonSetSpec{Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Annotations: sidecar.Annotations("kustomize")},
			Spec:       corev1.PodSpec{HostPID: true, Volumes: sidecar.Volumes()},
		}},
	}
}

// ContainerPatch returns the kustomize patch that appends the container. A merge patch would put the container first.
// The kubelet starts containers in order, so the device plugin would then wait for the exporter's image.
func ContainerPatch() []sidecar.Operation {
	return []sidecar.Operation{sidecar.Add("/spec/template/spec/containers/-", sidecar.Container(Image+Tag))}
}

// WebPatch returns the kustomize patch that mounts a web configuration from a Secret into the exporter's own
// DaemonSet.
func WebPatch(secret string) []sidecar.Operation {
	const container = "/spec/template/spec/containers/0"
	return []sidecar.Operation{
		sidecar.Add("/spec/template/spec/volumes/-", sidecar.WebVolume(secret)),
		sidecar.Add(container+"/volumeMounts/-", sidecar.WebMount()),
		sidecar.Add(container+"/args/-", sidecar.WebArg),
	}
}
