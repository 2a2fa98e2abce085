//go:build e2e

package deploy_test

import (
	"context"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	daemonSetController = "system:serviceaccount:kube-system:daemon-set-controller"
	controllerManager   = "system:kube-controller-manager"
)

// TestInjection checks for each installer that the commands in docs/install.md add the container to the pods of the
// device plugin. The commands must change nothing else in the pods.
func TestInjection(t *testing.T) {
	for _, i := range installers {
		t.Run(i.name, func(t *testing.T) {
			apply(t, "-f", i.file())
			before := podsOf(t, i.namespace, i.daemonSet)
			install := documented(t, "## Install", "")
			variables := install[0] + "; " // for the GPU Operator only
			if i.name != "operator" {
				variables = "O=" + i.name + " N=" + i.namespace + " D=" + i.daemonSet + "; "
			}
			t.Cleanup(func() { remove(t, "-k", overlay(i.name)) })
			shell(t, "", variables+containing(t, install, "kubectl apply"), containing(t, install, "patch configmap"))
			policyActs(t, i, &before[0])

			shell(t, "", variables+containing(t, install, "rollout restart"))
			var after []core.Pod
			eventually(t, "the pods are replaced", func() bool {
				after = podsOf(t, i.namespace, i.daemonSet)
				return !slices.ContainsFunc(after, func(p core.Pod) bool { return p.UID == before[0].UID || p.UID == before[1].UID })
			})
			for _, pod := range after {
				checkPod(t, &pod, i.plugin)
				if got := pod.Annotations["gpuledger.io/injected-by"]; got != "MutatingAdmissionPolicy gpuledger" {
					t.Errorf("the annotation injected-by is %q, want \"MutatingAdmissionPolicy gpuledger\"", got)
				}
				if diff := cmp.Diff(without(&before[0]), without(&pod)); diff != "" {
					t.Errorf("the pod without our container (-before +after):\n%s", diff)
				}
			}
			if i.name == "helm" {
				for _, pod := range podsOf(t, i.namespace, "nvdp-nvidia-device-plugin-gpu-feature-discovery") {
					if hasSidecar(&pod) {
						t.Error("the pod of feature discovery has the container")
					}
				}
			}
		})
	}
}

// The policy takes effect a moment after its creation.
func policyActs(t *testing.T, i installer, example *core.Pod) {
	t.Helper()
	eventually(t, "the policy adds the container", func() bool {
		pod, err := createAs(t, daemonSetController, i.namespace, fresh(example))
		check(t, err)
		return hasSidecar(pod)
	})
}

// createAs returns the pod after admission, without creating it.
func createAs(t *testing.T, user, namespace string, pod *core.Pod) (*core.Pod, error) {
	t.Helper()
	config := rest.CopyConfig(world.Admin)
	config.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	return client.CoreV1().Pods(namespace).Create(t.Context(), pod, meta.CreateOptions{DryRun: []string{meta.DryRunAll}})
}

// fresh returns a pod as its creator wrote it, before admission.
func fresh(pod *core.Pod) *core.Pod {
	n := without(pod)
	n.ObjectMeta = meta.ObjectMeta{GenerateName: "p-", Namespace: pod.Namespace, Annotations: maps.Clone(n.Annotations), OwnerReferences: pod.OwnerReferences}
	n.Spec.Affinity = pod.Spec.Affinity.DeepCopy()
	return n
}

// without returns a copy of a pod without our container. It also removes the fields that differ between pods, and the
// fields that admission adds.
func without(pod *core.Pod) *core.Pod {
	n := &core.Pod{Spec: *pod.Spec.DeepCopy()}
	n.Annotations = maps.Clone(pod.Annotations)
	maps.DeleteFunc(n.Annotations, func(key, _ string) bool {
		return key == "gpuledger.io/injected-by" || key == "nvidia.cdi.k8s.io/container.gpuledger" || key == "kubectl.kubernetes.io/restartedAt"
	})
	if len(n.Annotations) == 0 {
		n.Annotations = nil
	}
	n.Spec.HostPID = false
	n.Spec.Affinity = nil
	token := ""
	n.Spec.Volumes = slices.DeleteFunc(n.Spec.Volumes, func(v core.Volume) bool {
		if v.Projected != nil {
			token = v.Name
		}
		return v.Projected != nil || slices.ContainsFunc(ours(pod), func(o core.Volume) bool { return o.Name == v.Name })
	})
	n.Spec.Containers = slices.DeleteFunc(n.Spec.Containers, func(c core.Container) bool { return c.Name == "gpuledger" })
	for _, containers := range [][]core.Container{n.Spec.Containers, n.Spec.InitContainers} {
		for i := range containers {
			c := &containers[i]
			c.VolumeMounts = slices.DeleteFunc(c.VolumeMounts, func(m core.VolumeMount) bool { return token != "" && m.Name == token })
		}
	}
	return n
}

// TestOneContainer checks that the policy, the kustomize patch and the exporter's own DaemonSet create equal containers
// with equal volumes.
func TestOneContainer(t *testing.T) {
	apply(t, "-k", overlay("dra"))
	standalone := podsOf(t, "gpuledger", "gpuledger")[0]
	remove(t, "-k", overlay("dra"))

	apply(t, "-k", "testdata/patched/static")
	patched := podsOf(t, "kube-system", "nvidia-device-plugin-daemonset")[0]
	remove(t, "-k", "testdata/patched/static")

	apply(t, "-k", overlay("static"))
	chooseAll(t)
	policyActs(t, installers[0], fresh(&patched))
	injected, err := createAs(t, daemonSetController, "kube-system", fresh(&patched))
	check(t, err)

	for name, pod := range map[string]*core.Pod{"patched": &patched, "injected": injected} {
		if diff := cmp.Diff(container(&standalone), container(pod)); diff != "" {
			t.Errorf("container (-standalone +%s):\n%s", name, diff)
		}
		if diff := cmp.Diff(ours(&standalone), ours(pod)); diff != "" {
			t.Errorf("volumes (-standalone +%s):\n%s", name, diff)
		}
	}
}

// TestPatched checks the commands in docs/platforms.md that add and remove the container with a kustomize patch, for
// each supported installer. The files that the commands download are in testdata.
func TestPatched(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	for n, i := range installers[:2] {
		t.Run(i.name, func(t *testing.T) {
			folder := t.TempDir()
			plugin, err := os.ReadFile(i.file())
			check(t, err)
			check(t, os.WriteFile(filepath.Join(folder, "plugin.yaml"), plugin, 0o600))
			commands := documented(t, "## Without an admission policy", folder)
			for _, command := range [][]string{commands[:2], commands[2:]}[n] { // in the order of the page
				if strings.HasPrefix(command, "helm ") {
					continue
				}
				shell(t, folder, staticManifest.ReplaceAllString(command, "plugin.yaml"))
			}
			t.Cleanup(func() { remove(t, "-k", folder) })
			for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
				checkPod(t, &pod, i.plugin)
			}
			if got := deploymentArguments(t); !slices.Contains(got, "--exporter.daemonsets="+i.namespace+"/"+i.daemonSet) {
				t.Errorf("the reconciler's arguments do not name the DaemonSet: %v", got)
			}

			back := documented(t, "### Remove the patch", folder)[n]
			shell(t, folder, staticManifest.ReplaceAllString(back, "plugin.yaml"))
			eventually(t, "the container is removed", func() bool {
				return !slices.ContainsFunc(podsOf(t, i.namespace, i.daemonSet), func(p core.Pod) bool { return hasSidecar(&p) || p.Spec.HostPID })
			})
		})
	}
}

var staticManifest = regexp.MustCompile(`https://raw\.githubusercontent\.com/\S+`)

// TestStandalone checks that pods of the exporter's own DaemonSet have no token. The controller must delete such a pod
// before the driver is replaced.
func TestStandalone(t *testing.T) {
	apply(t, "-k", overlay("operator-standalone"))
	for _, pod := range podsOf(t, "gpuledger", "gpuledger") {
		if slices.ContainsFunc(pod.Spec.Volumes, func(v core.Volume) bool { return v.Projected != nil || v.Secret != nil }) {
			t.Error("the exporter's pod has a volume with a token")
		}
		if !pod.Spec.HostPID || len(pod.Spec.Containers) != 1 {
			t.Errorf("hostPID is %v with %d containers, want true with 1", pod.Spec.HostPID, len(pod.Spec.Containers))
		}
	}
	// The GPU Operator's driver manager sets this label before it replaces the driver, so the DaemonSet
	// controller deletes the exporter's pod from the node.
	bound := podsOf(t, "gpuledger", "gpuledger")
	for _, pod := range bound {
		bind(t, &pod)
	}
	kubectl(t, "label", "node", "gpu-1", "--overwrite", "nvidia.com/gpu.deploy.device-plugin=paused-for-driver-upgrade")
	defer kubectl(t, "label", "node", "gpu-1", "--overwrite", "nvidia.com/gpu.deploy.device-plugin=true")
	for _, pod := range bound {
		if node(&pod) == "gpu-1" {
			eventually(t, "the exporter's pod is deleted", func() bool { return ends(t, &pod) })
		} else if ends(t, &pod) {
			t.Error("the exporter's pod is also deleted from the other node")
		}
	}
}

// TestTwoForms checks the overlay in docs/platforms.md that contains both the policy and the exporter's own DaemonSet.
// Both must create pods, and the reconciler must read both kinds of pods.
func TestTwoForms(t *testing.T) {
	operator := installers[2]
	apply(t, "-f", operator.file())
	first := podsOf(t, operator.namespace, operator.daemonSet)
	folder := t.TempDir()
	shell(t, folder, documented(t, "### Two forms in one cluster", folder)...)
	t.Cleanup(func() { remove(t, "-k", folder) })
	chooseAll(t)
	policyActs(t, operator, &first[0])

	kubectl(t, "label", "node", "gpu-2", "example.com/gpus=without-device-plugin")
	defer kubectl(t, "label", "node", "gpu-2", "example.com/gpus-")
	eventually(t, "the exporter's own pod exists", func() bool {
		return slices.ContainsFunc(ourPods(t), func(p core.Pod) bool { return hasSidecar(&p) && node(&p) == "gpu-2" })
	})
	const both = "--exporter.daemonsets=gpu-operator/nvidia-device-plugin-daemonset,gpuledger/gpuledger"
	if got := deploymentArguments(t); !slices.Contains(got, both) {
		t.Errorf("the reconciler's arguments do not name both DaemonSets: %v", got)
	}
}

// TestBeforeRelease checks the overlay in docs/images.md for images that users build. All images must come from the
// user's registry.
func TestBeforeRelease(t *testing.T) {
	operator := installers[2]
	apply(t, "-f", operator.file())
	first := podsOf(t, operator.namespace, operator.daemonSet)
	clone := t.TempDir()
	tree, err := filepath.Abs(manifests)
	check(t, err)
	check(t, os.Symlink(tree, filepath.Join(clone, "manifests")))
	commands := slices.DeleteFunc(documented(t, "## Before there is a release", clone), func(c string) bool { return strings.HasPrefix(c, "docker ") })
	t.Cleanup(func() { remove(t, "-k", filepath.Join(clone, "mine")) })
	shell(t, clone, strings.Join(commands, "\n")) // in one shell, because the first command sets variables
	chooseAll(t)
	policyActs(t, operator, &first[0])

	const registry = "registry.example.com/gpuledger/"
	pod, err := createAs(t, daemonSetController, operator.namespace, fresh(&first[0]))
	check(t, err)
	if got := container(pod).Image; got != registry+"gpuledger:dev" {
		t.Errorf("the exporter's image is %s, want registry.example.com/gpuledger/gpuledger:dev", got)
	}
	deployment, err := world.Client.AppsV1().Deployments("gpuledger").Get(t.Context(), "gpuledger-reconciler", meta.GetOptions{})
	check(t, err)
	if got := deployment.Spec.Template.Spec.Containers[0].Image; got != registry+"gpuledger-reconciler:dev" {
		t.Errorf("the reconciler's image is %s, want registry.example.com/gpuledger/gpuledger-reconciler:dev", got)
	}
}

// TestAnotherNamespace checks the commands in docs/platforms.md for a device plugin with another name in another
// namespace. The policy, the reconciler and Prometheus must select only this device plugin.
func TestAnotherNamespace(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	kubectl(t, "create", "namespace", "gpus")
	t.Cleanup(func() { remove(t, "namespace", "gpus") })
	helm := installers[1]
	apply(t, "-f", helm.file())
	pod := fresh(&podsOf(t, helm.namespace, helm.daemonSet)[0])
	pod.Spec.ServiceAccountName, pod.Spec.DeprecatedServiceAccount = "", ""
	folder := t.TempDir()
	t.Cleanup(func() { remove(t, "-k", folder) })
	shell(t, folder, documented(t, "### Another namespace or release name", folder)...)
	chooseAll(t)
	ask := func(namespace string) *core.Pod {
		asked, err := createAs(t, daemonSetController, namespace, clone(pod, func(p *core.Pod) { p.Namespace = namespace }))
		check(t, err)
		return asked
	}
	eventually(t, "the policy adds the container in namespace gpus", func() bool { return hasSidecar(ask("gpus")) })
	if hasSidecar(ask(helm.namespace)) {
		t.Errorf("the policy also adds the container in namespace %s", helm.namespace)
	}
	const daemonSet = "gpus/plugin-nvidia-device-plugin"
	if got := deploymentArguments(t); !slices.Contains(got, "--exporter.daemonsets="+daemonSet) {
		t.Errorf("the reconciler's arguments do not name gpus/plugin-nvidia-device-plugin: %v", got)
	}
	monitor := kubectl(t, "get", "podmonitors.monitoring.coreos.com", "--namespace=gpuledger", "gpuledger", "--output=yaml")
	if strings.Count(monitor, "regex: "+daemonSet+"\n") != 2 || !strings.Contains(monitor, "matchNames:\n    - gpus\n  ") {
		t.Errorf("the PodMonitor does not select gpus/plugin-nvidia-device-plugin twice and namespace gpus:\n%s", monitor)
	}
}

// bind assigns a pod to its node, as the scheduler does. It deletes the pod after the test, because there is no
// kubelet.
func bind(t *testing.T, pod *core.Pod) {
	t.Helper()
	binding := &core.Binding{ObjectMeta: meta.ObjectMeta{Name: pod.Name}, Target: core.ObjectReference{Kind: "Node", Name: node(pod)}}
	check(t, world.Client.CoreV1().Pods(pod.Namespace).Bind(t.Context(), binding, meta.CreateOptions{}))
	t.Cleanup(func() {
		// The pod may be deleted already.
		_ = world.Client.CoreV1().Pods(pod.Namespace).Delete(context.Background(), pod.Name, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	})
}

func ends(t *testing.T, pod *core.Pod) bool {
	t.Helper()
	now, err := world.Client.CoreV1().Pods(pod.Namespace).Get(t.Context(), pod.Name, meta.GetOptions{})
	check(t, err)
	return now.DeletionTimestamp != nil
}

func clone(pod *core.Pod, change func(*core.Pod)) *core.Pod {
	n := pod.DeepCopy()
	change(n)
	return n
}
