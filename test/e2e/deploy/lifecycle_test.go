//go:build e2e

package deploy_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// TestLifeCycle goes with the GPU Operator from installation to removal: a canary, the
// other node, an upgrade in place, one that does not work, and nothing left behind.
func TestLifeCycle(t *testing.T) {
	operator := installers[2]
	apply(t, "-f", operator.file())
	first := podsOf(t, operator.namespace, operator.daemonSet)
	before := everything(t)

	apply(t, "-k", overlay("operator"))
	patchParameter(t, "canaryNodes", "gpu-1")
	policyActs(t, operator, onTheNode(t, first, "gpu-1"))
	if n := len(everything(t)); n < 20 {
		t.Errorf("only %d objects mention us: this test would not see what is left behind", n)
	}
	eventually(t, "the reconciler's pods are admitted", func() bool { return len(ourPods(t)) == 2 })

	pods := renew(t, operator, first)
	for _, pod := range pods {
		if got, want := hasSidecar(&pod), node(&pod) == "gpu-1"; got != want {
			t.Errorf("canary: the container on %s is there: %v", node(&pod), got)
		}
	}
	patchParameter(t, "canaryNodes", "")
	eventually(t, "the other node gets the container", func() bool {
		pod, err := createAs(t, daemonSetController, operator.namespace, fresh(onTheNode(t, first, "gpu-2")))
		check(t, err)
		return hasSidecar(pod)
	})
	pods = renew(t, operator, pods)
	for _, pod := range pods {
		checkPod(t, &pod, operator.plugin)
	}

	verified := documented(t, "custom-columns=")
	for _, pod := range pods {
		if !strings.Contains(verified, pod.Name) {
			t.Errorf("the command that docs/install.md verifies with does not show %s:\n%s", pod.Name, verified)
		}
	}

	t.Run("upgrade", func(t *testing.T) { upgrades(t, operator, pods) })

	// Removal, as docs/install.md has it.
	kubectl(t, "delete", "mutatingadmissionpolicy,mutatingadmissionpolicybinding", "gpuledger")
	eventually(t, "the policy acts no more", func() bool {
		pod, err := createAs(t, daemonSetController, operator.namespace, fresh(&first[0]))
		check(t, err)
		return !hasSidecar(pod)
	})
	for _, pod := range renew(t, operator, pods) {
		if hasSidecar(&pod) || pod.Spec.HostPID {
			t.Error("a pod still has the container")
		}
	}
	remove(t, "-k", overlay("operator"))
	left := slices.DeleteFunc(everything(t), func(object string) bool { return slices.Contains(before, object) })
	if len(left) > 0 {
		t.Errorf("left behind:\n%s", strings.Join(left, "\n"))
	}
}

// documented runs the command of docs/install.md that contains a text.
func documented(t *testing.T, text string) string {
	t.Helper()
	page, err := os.ReadFile("../../../docs/install.md")
	check(t, err)
	for line := range strings.Lines(string(page)) {
		if command, ok := strings.CutPrefix(line, "$ "); ok && strings.Contains(command, text) {
			cmd := exec.CommandContext(t.Context(), "bash", "-c", command)
			cmd.Env = environment()
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", command, err, out)
			}
			return string(out)
		}
	}
	t.Fatalf("no command contains %s", text)
	return ""
}

// upgrades runs the script that gives running pods another image.
func upgrades(t *testing.T, i installer, pods []core.Pod) {
	kubelet := startKubelet(t, i.namespace)
	eventually(t, "the first containers are ready", kubelet.settled)
	run := func(args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), manifests+"upgrade", args...)
		cmd.Env = append(environment(), "TIMEOUT=5")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	out, err := run("registry.example.com/gpuledger:2", "1")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		if got := container(&pod).Image; got != "registry.example.com/gpuledger:2" {
			t.Errorf("%s has the image %s", pod.Name, got)
		}
		if !slices.ContainsFunc(pods, func(p core.Pod) bool { return p.UID == pod.UID }) {
			t.Error("the pod was replaced")
		}
		if !strings.Contains(out, pod.Namespace+"/"+pod.Name) {
			t.Errorf("the script does not name %s:\n%s", pod.Name, out)
		}
	}
	if got := kubelet.mostAtOnce(); got != 1 {
		t.Errorf("%d containers were replaced at once", got)
	}
	if out, err := run("registry.example.com/gpuledger:2"); err != nil || out != "" {
		t.Errorf("once more: %v\n%s", err, out)
	}
	// These two containers are ready only once both were replaced.
	if out, err := run("registry.example.com/gpuledger:together", "2"); err != nil {
		t.Errorf("two at once: %v\n%s", err, out)
	}
	// An image that does not start stops the upgrade at the first pod.
	if out, err := run("registry.example.com/broken", "1"); err == nil || !strings.Contains(out, "not ready") {
		t.Errorf("a broken image: %v\n%s", err, out)
	}
	broken := 0
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		if container(&pod).Image == "registry.example.com/broken" {
			broken++
		}
	}
	if broken != 1 {
		t.Errorf("the broken image reached %d pods", broken)
	}
}

// renew restarts the device plugin, as people do, and returns its new pods.
func renew(t *testing.T, i installer, old []core.Pod) []core.Pod {
	t.Helper()
	for _, pod := range old {
		kubectl(t, "delete", "pod", "--namespace="+i.namespace, pod.Name)
	}
	return podsOf(t, i.namespace, i.daemonSet)
}

func onTheNode(t *testing.T, pods []core.Pod, name string) *core.Pod {
	t.Helper()
	for i := range pods {
		if node(&pods[i]) == name {
			return &pods[i]
		}
	}
	t.Fatalf("no pod on %s", name)
	return nil
}

// ourPods returns the pods in our namespace.
func ourPods(t *testing.T) []core.Pod {
	t.Helper()
	list, err := world.Client.CoreV1().Pods("gpuledger").List(t.Context(), meta.ListOptions{})
	check(t, err)
	return list.Items
}

// everything returns the names of all objects that mention us, but for the events.
func everything(t *testing.T) []string {
	t.Helper()
	groups, err := restmapper.GetAPIGroupResources(world.Client.Discovery())
	check(t, err)
	client, err := dynamic.NewForConfig(world.Admin)
	check(t, err)
	var found []string
	for _, group := range groups {
		version := group.Group.PreferredVersion.Version
		for _, resource := range group.VersionedResources[version] {
			if !slices.Contains(resource.Verbs, "list") || resource.Kind == "Event" {
				continue
			}
			kind := schema.GroupVersionResource{Group: group.Group.Name, Version: version, Resource: resource.Name}
			list, err := client.Resource(kind).List(t.Context(), meta.ListOptions{})
			check(t, err)
			for _, object := range list.Items {
				text, err := object.MarshalJSON()
				check(t, err)
				if strings.Contains(string(text), "gpuledger") {
					found = append(found, resource.Kind+" "+object.GetNamespace()+"/"+object.GetName())
				}
			}
		}
	}
	return found
}
