// Package exporter finds the exporters in a cluster and reads their inventories. It does not trust their responses,
// because any node may be compromised.
package exporter

import (
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// In all manifests, the exporter's container and port have these names. The exporter listens on defaultPort by default.
const (
	containerName = "gpuledger"
	portName      = "gpuledger"
	defaultPort   = 9840
)

// Target describes an exporter according to the API server. The Node comes from the scheduler, never from the exporter.
type Target struct {
	Node string
	// DaemonSet and DaemonSetUID come from the pod's owner reference. Users can write any text into an owner reference,
	// so the caller must compare both values with the real DaemonSet.
	DaemonSet    DaemonSet
	DaemonSetUID types.UID
	// Run identifies the current run of the exporter's container. It changes with each restart of the container.
	Run string
	// Address is host:port, or empty while the container is not ready.
	Address string
}

// Target returns the exporter in a pod. The pod must contain the exporter's container, and must name one of the listed
// DaemonSets as its controller. Labels are ignored, because several installers put the same labels on different pods.
func (o *Options) Target(pod *corev1.Pod) (Target, bool) {
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

// Pod contains the parts of a pod that the reconciler keeps in memory. It is small, because a namespace may contain a
// hundred thousand pods, and most pods contain no exporter.
type Pod struct {
	// ObjectMeta contains only the name, the namespace, the UID and the resource version.
	metav1.ObjectMeta
	// Target is nil if the pod contains no exporter.
	Target *Target
}

// Keep reduces a pod to a [Pod].
func (o *Options) Keep(pod *corev1.Pod) *Pod {
	p := &Pod{ObjectMeta: metav1.ObjectMeta{Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ResourceVersion: pod.ResourceVersion}}
	if t, ok := o.Target(pod); ok {
		p.Target = &t
	}
	return p
}
