// Package exporter finds the exporters of a cluster and reads their inventories.
// What they answer is not trusted: any of their nodes may be somebody else's by now.
package exporter

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
	// DaemonSet and DaemonSetUID are from the pod's owner reference, which is free text:
	// the reader compares them with the DaemonSet of that name.
	DaemonSet    DaemonSet
	DaemonSetUID types.UID
	// Run tells one start of the container from the next.
	Run string
	// Address is host:port, empty while the container is not ready.
	Address string
}

// Of returns the exporter in a pod, if the pod holds one and names one of the listed
// DaemonSets as its controller. Labels are ignored: several installers put the same ones
// on pods of several kinds.
func (o *Options) Of(pod *corev1.Pod) (Target, bool) {
	owner := metav1.GetControllerOfNoCopy(pod)
	if pod.Spec.NodeName == "" || owner == nil || owner.Kind != "DaemonSet" {
		return Target{}, false
	}
	from := DaemonSet{pod.Namespace, owner.Name}
	if _, listed := o.DaemonSets[from]; !listed {
		return Target{}, false
	}
	c := container(pod)
	if c == nil {
		return Target{}, false
	}
	t := Target{Node: pod.Spec.NodeName, DaemonSet: from, DaemonSetUID: owner.UID}
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

// Pod is what is kept of a pod in memory: little, for a namespace may have a hundred
// thousand, and most are no exporter.
type Pod struct {
	// ObjectMeta has name, namespace, UID and resource version, and nothing else.
	metav1.ObjectMeta
	// Target is nil if the pod holds no exporter.
	Target *Target
}

// Keep returns what is kept of a pod.
func (o *Options) Keep(pod *corev1.Pod) *Pod {
	p := &Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	if t, ok := o.Of(pod); ok {
		p.Target = &t
	}
	return p
}
