package workloads

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const removed = "removed"

// snapshot returns a copy of a pod without possible secrets. Arguments are removed because secret arguments cannot be
// detected. Annotations that are not allow-listed are removed because the annotation of kubectl apply repeats the whole
// object.
func snapshot(from *corev1.Pod, annotations []string) *corev1.Pod {
	p := from.DeepCopy()
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.ManagedFields = nil
	p.Annotations = only(p.Annotations, annotations)
	for i := range p.Spec.InitContainers {
		cleanContainer(&p.Spec.InitContainers[i])
	}
	for i := range p.Spec.Containers {
		cleanContainer(&p.Spec.Containers[i])
	}
	for i := range p.Spec.EphemeralContainers {
		c := corev1.Container(p.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		cleanContainer(&c)
		p.Spec.EphemeralContainers[i].EphemeralContainerCommon = corev1.EphemeralContainerCommon(c)
	}
	for i := range p.Spec.Volumes {
		cleanVolume(&p.Spec.Volumes[i])
	}
	for s := range statuses(p) {
		cleanState(&s.State)
		cleanState(&s.LastTerminationState)
	}
	return p
}

func only(from map[string]string, keys []string) map[string]string {
	kept := make(map[string]string)
	for _, k := range keys {
		if v, ok := from[k]; ok {
			kept[k] = v
		}
	}
	return kept
}

func cleanContainer(c *corev1.Container) {
	for i := range c.Env {
		if c.Env[i].Value != "" {
			c.Env[i].Value = removed
		}
	}
	c.Command, c.Args = nil, nil
	for _, probe := range []*corev1.Probe{c.LivenessProbe, c.ReadinessProbe, c.StartupProbe} {
		if probe != nil {
			cleanAction(probe.Exec, probe.HTTPGet)
		}
	}
	if c.Lifecycle == nil {
		return
	}
	for _, hook := range []*corev1.LifecycleHandler{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
		if hook != nil {
			cleanAction(hook.Exec, hook.HTTPGet)
		}
	}
}

func cleanAction(exec *corev1.ExecAction, get *corev1.HTTPGetAction) {
	if exec != nil {
		exec.Command = nil
	}
	if get != nil {
		get.Path, _, _ = strings.Cut(get.Path, "?")
		for i := range get.HTTPHeaders {
			get.HTTPHeaders[i].Value = removed
		}
	}
}

func cleanVolume(v *corev1.Volume) {
	switch {
	case v.CSI != nil:
		hideValues(v.CSI.VolumeAttributes)
	case v.FlexVolume != nil:
		hideValues(v.FlexVolume.Options)
	}
}

func hideValues(m map[string]string) {
	for k := range m {
		m[k] = removed
	}
}

func cleanState(s *corev1.ContainerState) {
	if s.Terminated != nil && s.Terminated.Message != "" {
		s.Terminated.Message = removed
	}
}
