//go:build e2e

package deploy_test

import (
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type installer struct {
	name      string // name of the overlay, and of the folder in testdata/installers
	namespace string
	daemonSet string
	plugin    string // name of the device plugin's container
}

var installers = []installer{
	{name: "static", namespace: "kube-system", daemonSet: "nvidia-device-plugin-daemonset", plugin: "nvidia-device-plugin-ctr"},
	{name: "helm", namespace: "nvidia-device-plugin", daemonSet: "nvdp-nvidia-device-plugin", plugin: "nvidia-device-plugin-ctr"},
	{name: "operator", namespace: "gpu-operator", daemonSet: "nvidia-device-plugin-daemonset", plugin: "nvidia-device-plugin"},
	{name: "amd-sidecar", namespace: "kube-system", daemonSet: "amdgpu-device-plugin-daemonset", plugin: amdPlugin},
}

// amdPlugin is the container name of AMD's device plugin.
const amdPlugin = "amdgpu-dp-cntr"

func (i installer) file() string { return "testdata/installers/" + i.name + "/plugin.yaml" }

const manifests = "../../../manifests/"

func overlay(name string) string { return manifests + "overlays/" + name }

// podsOf waits until a DaemonSet has a pod for each of the two nodes.
func podsOf(t *testing.T, namespace, daemonSet string) []core.Pod {
	t.Helper()
	var pods []core.Pod
	eventually(t, "the pods of "+namespace+"/"+daemonSet+" exist", func() bool {
		list, err := world.Client.CoreV1().Pods(namespace).List(t.Context(), meta.ListOptions{})
		check(t, err)
		pods = slices.DeleteFunc(list.Items, func(p core.Pod) bool {
			return p.DeletionTimestamp != nil || !slices.ContainsFunc(p.OwnerReferences, func(o meta.OwnerReference) bool { return o.Name == daemonSet })
		})
		return len(pods) == 2
	})
	return pods
}

// container returns nil if the pod has no container gpuledger.
func container(pod *core.Pod) *core.Container {
	for i := range pod.Spec.Containers {
		if pod.Spec.Containers[i].Name == "gpuledger" {
			return &pod.Spec.Containers[i]
		}
	}
	return nil
}

func hasSidecar(pod *core.Pod) bool { return container(pod) != nil }

// node returns the node in the affinity, because the pod is not scheduled.
func node(pod *core.Pod) string {
	return pod.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms[0].MatchFields[0].Values[0]
}

func ours(pod *core.Pod) []core.Volume {
	return slices.DeleteFunc(slices.Clone(pod.Spec.Volumes), func(v core.Volume) bool { return !strings.HasPrefix(v.Name, "gpuledger-") })
}

// tokenOf returns the name of a volume that contains a token and is mounted in the container, or "".
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

func checkPod(t *testing.T, pod *core.Pod, plugin string) {
	t.Helper()
	c := container(pod)
	if c == nil {
		t.Fatalf("%s has no container gpuledger", pod.Name)
	}
	if last := pod.Spec.Containers[len(pod.Spec.Containers)-1]; last.Name != "gpuledger" {
		t.Errorf("the last container is %s, want gpuledger", last.Name)
	}
	if pod.Spec.Containers[0].Name != plugin {
		t.Errorf("the first container is %s, want the device plugin", pod.Spec.Containers[0].Name)
	}
	if !pod.Spec.HostPID {
		t.Error("the pod has no hostPID")
	}
	wantGPUs, wantEnv := "management.nvidia.com/gpu=all", []string{"NODE_NAME", "NVIDIA_VISIBLE_DEVICES", "NVIDIA_DRIVER_CAPABILITIES"}
	if plugin == amdPlugin {
		wantGPUs, wantEnv = "", []string{"NODE_NAME"}
	}
	if got := pod.Annotations["nvidia.cdi.k8s.io/container.gpuledger"]; got != wantGPUs {
		t.Errorf("the CDI annotation is %q, want %q", got, wantGPUs)
	}
	var env []string
	for _, e := range c.Env {
		env = append(env, e.Name)
	}
	if !slices.Equal(env, wantEnv) {
		t.Errorf("the container has the variables %v, want %v", env, wantEnv)
	}
	if volume := tokenOf(pod, c); volume != "" {
		t.Errorf("the volume %s mounts a token in the container", volume)
	}
	// An empty volume covers the path of the service account's token.
	empty := slices.ContainsFunc(c.VolumeMounts, func(m core.VolumeMount) bool {
		return m.Name == "gpuledger-no-token" && m.MountPath == "/var/run/secrets/kubernetes.io/serviceaccount" && m.ReadOnly
	})
	if !empty {
		t.Error("no empty volume covers the path of the token")
	}
	if tokenOf(pod, &pod.Spec.Containers[0]) == "" {
		t.Error("the device plugin has no token, so this test cannot detect one in our container")
	}
}
