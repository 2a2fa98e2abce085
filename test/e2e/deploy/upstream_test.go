//go:build e2e

package deploy_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var allNamespaces = []string{"kube-system", "nvidia-device-plugin", "gpu-operator"}

// upstream contains the DaemonSets to which an installation adds the container, as namespace/name. The key is the
// component of the installation, or empty for the default overlays.
var upstream = map[string][]string{
	"": {
		"kube-system/nvidia-device-plugin-daemonset", "nvidia-device-plugin/nvdp-nvidia-device-plugin", "gpu-operator/nvidia-device-plugin-daemonset",
		"nvidia-device-plugin/nvidia-device-plugin-daemonset",
		"kube-system/amdgpu-device-plugin-daemonset", "kube-system/amdgpu-device-plugin-health", "kube-system/amd-gpu-device-plugin-daemonset",
	},
	"host-dcgm-exporter":      {"gpu-operator/nvidia-dcgm-exporter", "nvidia-device-plugin/chart-dcgm-exporter", "nvidia-device-plugin/dcgm-exporter"},
	"host-mps-control-daemon": {"nvidia-device-plugin/nvdp-nvidia-device-plugin-mps-control-daemon", "gpu-operator/nvidia-device-plugin-mps-control-daemon"},
}

var leftAlone = []string{
	"nvidia-device-plugin/configured-nvidia-device-plugin",                // shareProcessNamespace
	"nvidia-device-plugin/shared-nvidia-device-plugin-mps-control-daemon", // shareProcessNamespace
	"gpu-operator/host-dcgm-exporter",                                     // the host's network
	"nvidia-device-plugin/another-exporter",                               // another image
	"nvidia-device-plugin/nvdp-nvidia-device-plugin-gpu-feature-discovery",
}

var variants = map[string]map[string]string{
	"default":    {"nodes": "*"},
	"everything": {"nodes": "*", "webSecret": "web", "pullSecrets": "one, two\nplugin-registry", "selinuxType": "spc_t", "arguments": "--collector.gauges=false\n\n --log.level=debug\n"},
	"web":        {"nodes": "*", "webSecret": "web"},
	"a node":     {"nodes": "gpu-2, gpu-1"},
	"no nodes":   {},
	"no Secret":  {"nodes": "*", "webSecret": "No"},
}

// TestUpstream checks that the policy and the webhook add the container to the same pods, and that the resulting pods
// are equal. It uses the pods of upstream's templates with all variants of the parameters, and random pods.
func TestUpstream(t *testing.T) {
	for _, i := range installers {
		apply(t, "-f", i.file())
	}
	apply(t, "-f", "testdata/upstream/plugins.yaml")
	pods := make(map[string]*core.Pod)
	for _, name := range slices.Concat(slices.Concat(slices.Collect(maps.Values(upstream))...), leftAlone) {
		namespace, daemonSet, _ := strings.Cut(name, "/")
		for n, pod := range podsOf(t, namespace, daemonSet) {
			pods[fmt.Sprintf("%s %d", name, n)] = fresh(&pod)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for component, injected := range upstream {
		t.Run("in place of "+component, func(t *testing.T) {
			results := make(map[string]map[string]*core.Pod)
			for _, by := range served(t) {
				t.Run(by, func(t *testing.T) {
					install(t, by, "static", allNamespaces, strings.Fields(component)...)
					results[by] = admitAll(t, pods, injected, rand.New(rand.NewPCG(seed, 0)))
				})
			}
			if diff := cmp.Diff(results[byPolicy], results[byWebhook]); results[byPolicy] != nil && diff != "" {
				t.Errorf("pods (-by the policy +by the webhook):\n%s", diff)
			}
			with := slices.DeleteFunc(slices.Collect(maps.Values(results[byWebhook])), func(p *core.Pod) bool { return !hasSidecar(p) })
			if len(with) < 10 {
				t.Errorf("%d pods with the container, want at least 10", len(with))
			}
		})
	}
}

func admitAll(t *testing.T, pods map[string]*core.Pod, injected []string, random *rand.Rand) map[string]*core.Pod {
	t.Helper()
	results := make(map[string]*core.Pod)
	first := pods[injected[0]+" 0"]
	admit := func(pod *core.Pod) *core.Pod {
		got, err := createAs(t, daemonSetController, pod.Namespace, pod)
		check(t, err)
		return got
	}
	for _, name := range slices.Sorted(maps.Keys(variants)) {
		parameters := variants[name]
		// The image is different for each variant, so the test can detect which variant is in force.
		image := "registry.example.com/gpuledger:" + strings.ReplaceAll(name, " ", "-")
		setParameters(t, image, map[string]string{"nodes": "*"})
		eventually(t, "the image is in force", func() bool { c := container(admit(first)); return c != nil && c.Image == image })
		setParameters(t, image, parameters)
		if parameters["nodes"] == "" || parameters["webSecret"] == "No" {
			eventually(t, name+" is in force", func() bool { return !hasSidecar(admit(first)) })
		} else if name != "default" && name != "a node" {
			eventually(t, name+" is in force", func() bool { return len(container(admit(first)).Args) > 1 })
		}
		for key, pod := range pods {
			if name == "default" || slices.Contains(injected, strings.Fields(key)[0]) {
				results[name+": "+key] = normalized(t, admit(pod))
			}
			if want := slices.Contains(injected, strings.Fields(key)[0]); name == "default" && hasSidecar(results[name+": "+key]) != want {
				t.Errorf("%s has the container: %v, want %v", key, !want, want)
			}
		}
	}
	everything := variants["everything"]
	setParameters(t, "registry.example.com/random", everything)
	eventually(t, "the parameters are in force", func() bool { c := container(admit(first)); return c != nil && len(c.Args) > 2 })
	for n := range 60 {
		results[fmt.Sprint("random ", n)] = normalized(t, admit(randomPod(first, random)))
	}
	return results
}

// randomPod copies a pod and randomizes the lists to which the policy adds items.
func randomPod(of *core.Pod, random *rand.Rand) *core.Pod {
	p := of.DeepCopy()
	some := func(names ...string) []string {
		return slices.DeleteFunc(names, func(string) bool { return random.IntN(2) == 0 })
	}
	p.Annotations = nil
	for _, key := range some("a", "b/c", "gpuledger.io/injected-by") {
		p.Annotations = map[string]string{"example.com/first": "1"}
		p.Annotations["example.com/"+strings.ReplaceAll(key, "/", ".")] = "x"
	}
	p.Spec.Volumes, p.Spec.InitContainers = nil, nil
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = nil
	}
	for _, name := range some("v", "w") {
		p.Spec.Volumes = append(p.Spec.Volumes, core.Volume{Name: name})
	}
	p.Spec.ImagePullSecrets = nil
	for _, name := range some("zero", "one", "two", "plugin-registry") {
		p.Spec.ImagePullSecrets = append(p.Spec.ImagePullSecrets, core.LocalObjectReference{Name: name})
	}
	for _, name := range some("amdgpu-dp-cntr", "other", "amdgpu-dp-cntr-health") {
		c := core.Container{Name: name, Image: "x"}
		p.Spec.Containers = slices.Insert(p.Spec.Containers, random.IntN(len(p.Spec.Containers)+1), c)
	}
	for _, change := range []func(){
		func() { p.Spec.HostPID = true },
		func() { p.Spec.ShareProcessNamespace = new(true) },
		func() { p.Spec.HostNetwork = true },
		func() { p.Spec.AutomountServiceAccountToken = new(false) },
		func() { p.Spec.SecurityContext = &core.PodSecurityContext{RunAsNonRoot: new(true)} },
		func() { p.OwnerReferences = nil },
	} {
		if random.IntN(8) == 0 {
			change()
		}
	}
	if p.Spec.ShareProcessNamespace != nil {
		p.Spec.HostPID = false // the combination with hostPID is invalid
	}
	return p
}

// normalized removes the random names from an admitted pod. It also checks and removes the annotation with the origin
// of the container.
func normalized(t *testing.T, pod *core.Pod) *core.Pod {
	t.Helper()
	p := pod.DeepCopy()
	p.ObjectMeta = meta.ObjectMeta{Namespace: pod.Namespace, Labels: pod.Labels, Annotations: maps.Clone(pod.Annotations), OwnerReferences: pod.OwnerReferences}
	if origin, ok := p.Annotations["gpuledger.io/injected-by"]; ok != hasSidecar(pod) || ok && origin != "MutatingAdmissionPolicy gpuledger" && origin != "MutatingWebhookConfiguration gpuledger" {
		t.Errorf("the annotation injected-by is %q", origin)
	}
	delete(p.Annotations, "gpuledger.io/injected-by")
	for i := range p.Spec.Volumes {
		if v := &p.Spec.Volumes[i]; v.Projected != nil {
			v.Name = "token"
		}
	}
	for _, containers := range [][]core.Container{p.Spec.Containers, p.Spec.InitContainers} {
		for i := range containers {
			for n := range containers[i].VolumeMounts {
				if m := &containers[i].VolumeMounts[n]; strings.HasPrefix(m.Name, "kube-api-access-") {
					m.Name = "token"
				}
			}
		}
	}
	return p
}

func setParameters(t *testing.T, image string, parameters map[string]string) {
	t.Helper()
	data := maps.Clone(parameters)
	data["image"] = image
	object, err := world.Client.CoreV1().ConfigMaps("gpuledger").Get(t.Context(), "gpuledger-sidecar", meta.GetOptions{})
	check(t, err)
	object.Data = data
	_, err = world.Client.CoreV1().ConfigMaps("gpuledger").Update(t.Context(), object, meta.UpdateOptions{})
	check(t, err)
}
