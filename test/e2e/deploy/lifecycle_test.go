//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestLifeCycle checks the commands in docs/install.md for the GPU Operator. They install the exporter on a canary node
// and then on the other node, upgrade the exporter in place, try an upgrade that fails, and remove every object.
func TestLifeCycle(t *testing.T) {
	operator := installers[2]
	apply(t, "-f", operator.file())
	first := podsOf(t, operator.namespace, operator.daemonSet)
	before := everything(t)

	canary := documented(t, "### Canary", "")
	of := "N=" + operator.namespace + " D=" + operator.daemonSet + "; "
	apply(t, "-k", overlay("operator"))
	shell(t, "", strings.NewReplacer("gpu-001", "gpu-1", "gpu-002", "gpu-9").Replace(containing(t, canary, "gpu-001")))
	policyActs(t, operator, onTheNode(t, first, "gpu-1"))
	eventually(t, "the reconciler's pods are admitted", func() bool { return len(ourPods(t)) == 2 })
	// A second apply of the manifests must not cause a conflict. It must not remove the exporter from the canary node.
	kubectl(t, "apply", "--server-side", "-k", overlay("operator"))

	preflight := containing(t, canary, "--dry-run=server")
	for name, want := range map[string]string{"gpu-1": operator.plugin + " gpuledger", "gpu-2": operator.plugin} {
		if got := shell(t, "", of+"POD="+onTheNode(t, first, name).Name+"; "+preflight); got != want {
			t.Errorf("%s: the preflight prints %q, want %q", name, got, want)
		}
	}
	pods := renew(t, operator, first)
	for _, pod := range pods {
		if got, want := hasSidecar(&pod), node(&pod) == "gpu-1"; got != want {
			t.Errorf("canary: the pod on %s has the container: %v, want it only on gpu-1", node(&pod), got)
		}
	}
	shell(t, "", containing(t, canary, `"nodes": "*"`))
	eventually(t, "the other node gets the container", func() bool {
		pod, err := createAs(t, daemonSetController, operator.namespace, fresh(onTheNode(t, first, "gpu-2")))
		check(t, err)
		return hasSidecar(pod)
	})
	shell(t, "", of+containing(t, canary, "rollout restart"))
	eventually(t, "every node has the container", func() bool {
		pods = podsOf(t, operator.namespace, operator.daemonSet)
		return !slices.ContainsFunc(pods, func(p core.Pod) bool { return !hasSidecar(&p) })
	})
	for _, pod := range pods {
		checkPod(t, &pod, operator.plugin)
	}
	for _, pod := range pods {
		wantVerified(t, "<none>", pod.Name) // no kubelet starts the container
	}

	t.Run("upgrade", func(t *testing.T) { upgrades(t, operator, pods) })
	forget(t, operator.namespace) // no kubelet ends these bound pods
	pods = podsOf(t, operator.namespace, operator.daemonSet)

	// The documented commands restart the device plugin before they delete the policy.
	commands := documented(t, "## Uninstall", "")
	shell(t, "", containing(t, commands, "delete configmap"))
	eventually(t, "the policy no longer adds the container", func() bool {
		pod, err := createAs(t, daemonSetController, operator.namespace, fresh(&first[0]))
		check(t, err)
		return !hasSidecar(pod)
	})
	left := containing(t, commands, "custom-columns=")
	if out := shell(t, "", left); strings.Count(out, "\n") != 3 {
		t.Errorf("the command before the restart does not show two pods:\n%s", out)
	}
	shell(t, "", of+containing(t, commands, "rollout restart"))
	eventually(t, "the command in docs/install.md shows no pod", func() bool { return strings.Count(shell(t, "", left), "\n") == 1 })
	for _, pod := range podsOf(t, operator.namespace, operator.daemonSet) {
		if hasSidecar(&pod) || pod.Spec.HostPID {
			t.Error("a pod still has the container or hostPID")
		}
	}
	shell(t, "", containing(t, commands, "delete mutatingadmissionpolicybinding"), containing(t, commands, "kubectl delete --all-namespaces"))
	nothingLeft(t, before)
}

// wantVerified checks that the verification command in docs/install.md prints the pod with the given readiness.
func wantVerified(t *testing.T, ready, pod string) {
	t.Helper()
	out := shell(t, "", containing(t, documented(t, "## Verify", ""), `@.name=="gpuledger"`))
	for line := range strings.Lines(out) {
		if fields := strings.Fields(line); fields[1] == pod && fields[2] == ready {
			return
		}
	}
	t.Errorf("no line with ready %s for pod %s:\n%s", ready, pod, out)
}

// The script manifests/upgrade changes the image of running pods.
func upgrades(t *testing.T, i installer, pods []core.Pod) {
	kubelet := startKubelet(t, i.namespace)
	eventually(t, "the first containers are ready", kubelet.settled)
	for _, pod := range pods {
		wantVerified(t, "true", pod.Name)
	}
	for n := range pods {
		bind(t, &pods[n])
	}
	stranger := strangersPod(t)
	run := func(args ...string) (string, error) { return upgrade(t, "", args...) }
	if out, err := upgrade(t, "gpu-1, gpu-9", "registry.example.com/gpuledger:canary"); err != nil || strings.Count(out, "\n") != 1 ||
		!strings.Contains(out, onTheNode(t, pods, "gpu-1").Name) {
		t.Errorf("upgrade of one node: %v, want one line with its pod:\n%s", err, out)
	}
	out, err := run("registry.example.com/gpuledger:2", "1")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		if got := container(&pod).Image; got != "registry.example.com/gpuledger:2" {
			t.Errorf("%s has the image %s, want registry.example.com/gpuledger:2", pod.Name, got)
		}
		if !slices.ContainsFunc(pods, func(p core.Pod) bool { return p.UID == pod.UID }) {
			t.Error("the upgrade replaced the pod")
		}
		if !strings.Contains(out, pod.Namespace+"/"+pod.Name) {
			t.Errorf("the output of the script does not name %s:\n%s", pod.Name, out)
		}
	}
	if got := kubelet.mostAtOnce(); got != 1 {
		t.Errorf("%d containers were replaced at once, want 1", got)
	}
	if out, err := run("registry.example.com/gpuledger:2"); err != nil || out != "" {
		t.Errorf("second upgrade to the same image: %v, want no output:\n%s", err, out)
	}
	// These two containers become ready only after both were replaced, so the script must replace them together.
	if out, err := run("registry.example.com/gpuledger:together", "2"); err != nil {
		t.Errorf("upgrade of two pods at once: %v\n%s", err, out)
	}
	// If the image does not start or keeps restarting, the upgrade stops at the first pod. A second upgrade to this
	// image changes no other pod.
	for _, image := range []string{"registry.example.com/broken", "registry.example.com/dying"} {
		for _, want := range []string{"stopping", "nothing was done"} {
			if out, err := run(image, "1"); err == nil || !strings.Contains(out, want) {
				t.Errorf("upgrade to %s: %v, want an error and %q in the output:\n%s", image, err, want, out)
			}
			if got := withImage(t, i, image); len(got) != 1 {
				t.Errorf("pods with the image %s: %q, want one", image, got)
			}
		}
	}
	unreachable(t, i, run)
	now, err := world.Client.CoreV1().Pods(stranger.Namespace).Get(t.Context(), stranger.Name, meta.GetOptions{})
	check(t, err)
	if got := container(now).Image; got != "x" {
		t.Errorf("the container in the unrelated pod has the image %s, want x", got)
	}
}

// unreachable checks that the upgrade skips and reports unreachable nodes, and upgrades all other nodes.
func unreachable(t *testing.T, i installer, run func(args ...string) (string, error)) {
	t.Helper()
	ready := func(status string) {
		patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": "Ready", "status": %q}]}}`, status)
		_, err := world.Client.CoreV1().Nodes().Patch(t.Context(), "gpu-2", types.StrategicMergePatchType, patch, meta.PatchOptions{}, "status")
		check(t, err)
	}
	ready("Unknown")
	out, err := run("registry.example.com/gpuledger:3")
	if got := withImage(t, i, "registry.example.com/gpuledger:3"); err == nil || !strings.Contains(out, "gpu-2 is not ready") || len(got) != 1 {
		t.Errorf("upgrade with a node that is not ready: %v, upgraded pods %q, want an error and one pod:\n%s", err, got, out)
	}
	ready("True")
	if out, err := run("registry.example.com/gpuledger:3"); err != nil || len(withImage(t, i, "registry.example.com/gpuledger:3")) != 2 {
		t.Errorf("upgrade after the node became ready: %v\n%s", err, out)
	}
	if out, err := run("--one", "registry.example.com/gpuledger:3", i.namespace, "gone"); err == nil || err.Error() != "exit status 1" ||
		!strings.Contains(out, i.namespace+"/gone: skipped, the pod was deleted") {
		t.Errorf("upgrade of a deleted pod: %v, want exit status 1 and a line for the pod:\n%s", err, out)
	}
}

func withImage(t *testing.T, i installer, image string) []string {
	t.Helper()
	var names []string
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		if container(&pod).Image == image {
			names = append(names, pod.Name)
		}
	}
	return names
}

// upgrade runs the script manifests/upgrade for all nodes if nodes is empty.
func upgrade(t *testing.T, nodes string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), manifests+"upgrade", args...)
	cmd.Env = append(environment(), "TIMEOUT=5", "STABLE=2", "NODES="+nodes)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func strangersPod(t *testing.T) *core.Pod {
	t.Helper()
	pods := world.Client.CoreV1().Pods("elsewhere")
	pod, err := pods.Create(t.Context(), &core.Pod{
		ObjectMeta: meta.ObjectMeta{Name: "stranger", Annotations: map[string]string{"example.com/a": "b"}},
		Spec:       core.PodSpec{Containers: []core.Container{{Name: "gpuledger", Image: "x"}}},
	}, meta.CreateOptions{})
	check(t, err)
	t.Cleanup(func() { check(t, pods.Delete(context.Background(), pod.Name, meta.DeleteOptions{})) })
	return pod
}

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

func ourPods(t *testing.T) []core.Pod {
	t.Helper()
	list, err := world.Client.CoreV1().Pods("gpuledger").List(t.Context(), meta.ListOptions{})
	check(t, err)
	return list.Items
}
