package deploy

import (
	"maps"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gpuledger/gpuledger/internal/sidecar"
)

// DaemonSet returns the exporter's own DaemonSet, for clusters in which the exporter cannot be added to a device
// plugin. The overlays select the nodes.
//
// During a roll-out, the old exporter on a node stops before the new exporter starts. Two exporters would report every
// series twice.
func DaemonSet() *appsv1.DaemonSet {
	labels := map[string]string{"app.kubernetes.io/name": Name, "app.kubernetes.io/component": "exporter"}
	all := maps.Clone(labels)
	maps.Copy(all, partOf)
	return &appsv1.DaemonSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "DaemonSet"},
		ObjectMeta: metav1.ObjectMeta{Name: Name, Namespace: Name, Labels: all},
		Spec: appsv1.DaemonSetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{
				Type:          appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: new(intstr.FromString("10%"))},
			},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels, Annotations: sidecar.Annotations("")},
				Spec: corev1.PodSpec{
					ServiceAccountName:           "gpuledger-exporter",
					AutomountServiceAccountToken: new(false),
					EnableServiceLinks:           new(false),
					HostPID:                      true,
					NodeSelector:                 map[string]string{corev1.LabelOSStable: "linux"},
					PriorityClassName:            "system-node-critical",
					// The exporter stops within a second, so a short grace period is enough. A long grace period
					// could delay a driver upgrade, which waits for the exporter.
					TerminationGracePeriodSeconds: new(int64(5)),
					Tolerations: []corev1.Toleration{
						{Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
						{Key: "nvidia.com/gpu", Operator: corev1.TolerationOpExists},
					},
					Containers: []corev1.Container{sidecar.Container(Image + Tag)},
					Volumes:    sidecar.Volumes(),
				},
			},
		},
	}
}
