// Package exporter finds the exporters of a cluster and reads their inventories.
// What they answer is not trusted: any of their nodes may be somebody else's by now.
package exporter

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The exporter's container, as all its manifests name it, and where it listens if
// the container names no port.
const (
	containerName = "gpuledger"
	portName      = "gpuledger"
	defaultPort   = 9840
)

// Target is one exporter as the API server knows it. Which Node it speaks for is the
// scheduler's word, never its own.
type Target struct {
	Node string
	// Run tells one start of the container from the next.
	Run string
	// Address is host:port, empty while the container is not ready.
	Address string
}

// Of returns the exporter in a pod, if it holds one and belongs to one of the listed
// DaemonSets. Labels are not looked at: several installers put the same ones on pods
// of several kinds.
func (o *Options) Of(pod *corev1.Pod) (Target, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Spec.NodeName == "" || owner == nil || owner.Kind != "DaemonSet" || !o.lists(pod.Namespace, owner.Name) {
		return Target{}, false
	}
	c := container(pod)
	if c == nil {
		return Target{}, false
	}
	t := Target{Node: pod.Spec.NodeName}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name != containerName {
			continue
		}
		t.Run = string(pod.UID) + "/" + s.ContainerID
		if s.Ready && pod.Status.PodIP != "" && pod.DeletionTimestamp == nil {
			t.Address = net.JoinHostPort(pod.Status.PodIP, port(c))
		}
	}
	return t, true
}

// container returns the exporter's container.
func container(pod *corev1.Pod) *corev1.Container {
	for i := range pod.Spec.Containers {
		if c := &pod.Spec.Containers[i]; c.Name == containerName {
			return c
		}
	}
	return nil
}

func port(c *corev1.Container) string {
	for _, p := range c.Ports {
		if p.Name == portName {
			return strconv.Itoa(int(p.ContainerPort))
		}
	}
	return strconv.Itoa(defaultPort)
}

// Trim removes all that [Options.Of] does not ask of a pod. Most pods of a namespace
// have no exporter, and keep little more than their name.
func Trim(pod *corev1.Pod) {
	pod.ObjectMeta = metav1.ObjectMeta{
		Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion,
		DeletionTimestamp: pod.DeletionTimestamp, OwnerReferences: pod.OwnerReferences,
	}
	c := container(pod)
	if c == nil {
		pod.OwnerReferences, pod.Spec, pod.Status = nil, corev1.PodSpec{}, corev1.PodStatus{}
		return
	}
	spec := corev1.PodSpec{NodeName: pod.Spec.NodeName, Containers: []corev1.Container{{Name: c.Name, Ports: c.Ports}}}
	status := corev1.PodStatus{PodIP: pod.Status.PodIP}
	for _, s := range pod.Status.ContainerStatuses {
		if s.Name == containerName {
			status.ContainerStatuses = []corev1.ContainerStatus{{Name: s.Name, ContainerID: s.ContainerID, Ready: s.Ready}}
		}
	}
	pod.Spec, pod.Status = spec, status
}
