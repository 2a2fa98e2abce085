//go:build e2e

package deploy_test

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// installer is a way in which the device plugin is installed.
type installer struct {
	name      string // of the overlay and of the folder in testdata/installers
	namespace string
	daemonSet string
	plugin    string // the device plugin's container
}

var installers = []installer{
	{name: "static", namespace: "kube-system", daemonSet: "nvidia-device-plugin-daemonset", plugin: "nvidia-device-plugin-ctr"},
	{name: "helm", namespace: "nvidia-device-plugin", daemonSet: "nvdp-nvidia-device-plugin", plugin: "nvidia-device-plugin-ctr"},
	{name: "operator", namespace: "gpu-operator", daemonSet: "nvidia-device-plugin-daemonset", plugin: "nvidia-device-plugin"},
}

func (i installer) file() string { return "testdata/installers/" + i.name + "/plugin.yaml" }

const manifests = "../../../manifests/"

func overlay(name string) string { return manifests + "overlays/" + name }

// podsOf returns the pods of a DaemonSet once there is one for each of the two nodes.
func podsOf(t *testing.T, namespace, daemonSet string) []core.Pod {
	t.Helper()
	var pods []core.Pod
	eventually(t, "the pods of "+namespace+"/"+daemonSet+" are there", func() bool {
		list, err := world.Client.CoreV1().Pods(namespace).List(t.Context(), meta.ListOptions{})
		check(t, err)
		pods = slices.DeleteFunc(list.Items, func(p core.Pod) bool {
			return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.OwnerReferences, func(o meta.OwnerReference) bool { return o.Name == daemonSet })
		})
		return len(pods) == 2
	})
	return pods
}

// container returns the container of ours.
func container(pod *core.Pod) *core.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "gpuledger" {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

func hasSidecar(pod *core.Pod) bool { return container(pod) != nil }

// node returns the name of the node that a DaemonSet's pod is made for.
func node(pod *core.Pod) string {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

// ours returns the volumes whose names begin with ours.
func ours(pod *core.Pod) []core.Volume {
	return slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v core.Volume) bool { return !strings.HasPrefix(v.Name, "gpuledger-") })
}

// tokenOf returns the volume with a ServiceAccount token for the container, if any.
func tokenOf(pod *core.Pod, c *core.Container) string {
	for _, m := range c.VolumeMounts {
		for _, v := range pod.Spec.Volumes {
			if v.Name == m.Name && (v.Projected != nil || v.Secret != nil) {
				return v.Name
			}
		}
	}
	return ""
}

// checkPod checks what has to hold of every pod of a device plugin with the container.
func checkPod(t *testing.T, pod *core.Pod, plugin string) {
	t.Helper()
	c := container(pod)
	if c == nil {
		t.Fatalf("%s has no container gpuledger", pod.Name)
	}
	if last := pod.Spec.Containers[len(pod.Spec.Containers)-1]; last.Name != "gpuledger" {
		t.Errorf("the last container is %s", last.Name)
	}
	if pod.Spec.Containers[0].Name != plugin {
		t.Errorf("the first container is %s", pod.Spec.Containers[0].Name)
	}
	if !pod.Spec.HostPID {
		t.Error("the pod has no hostPID")
	}
	if got := pod.Annotations["nvidia.cdi.k8s.io/container.gpuledger"]; got != "management.nvidia.com/gpu=all" {
		t.Errorf("the CDI annotation is %q", got)
	}
	if volume := tokenOf(pod, c); volume != "" {
		t.Errorf("the volume %s brings a token into the container", volume)
	}
	// Where the token would be there is the volume that is empty.
	empty := slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool {
		return m.Name == "gpuledger-no-token" && m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" && m.ReadOnly
	})
	if !empty {
		t.Error("nothing covers the path of the token")
	}
	if tokenOf(pod, &pod.Spec.Containers[0]) == "" {
		t.Error("the device plugin has no token: this test would not see one in our container")
	}
}
