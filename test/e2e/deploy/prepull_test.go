//go:build e2e

package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestGPUNodes checks that the overlay standalone selects exactly the nodes with one of the labels that administrators
// or programs set on GPU nodes.
func TestGPUNodes(t *testing.T) {
	kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present-")
	defer kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present=true")
	apply(t, "-k", overlay("standalone"))
	chosen := func(want int32) func() bool {
		return func() bool {
			d, err := world.Client.AppsV1().DaemonSets("gpuledger").Get(t.Context(), "gpuledger", meta.GetOptions{})
			check(t, err)
			return d.Status.ObservedGeneration == d.Generation && d.Status.DesiredNumberScheduled == want
		}
	}
	eventually(t, "no node is chosen", chosen(0))
	for i, label := range []string{
		"nvidia.com/gpu.present", "feature.node.kubernetes.io/pci-10de.present",
		"feature.node.kubernetes.io/pci-0302_10de.present", "feature.node.kubernetes.io/pci-0300_10de.present",
	} {
		kubectl(t, "label", "node", "gpu-1", label+"=true")
		eventually(t, "a node is chosen by "+label, chosen(1))
		kubectl(t, "label", "node", "gpu-1", label+"-")
		// While a node's pod is not bound, the controller checks the node again only after a change of the DaemonSet.
		kubectl(t, "annotate", "daemonset", "--namespace=gpuledger", "gpuledger", "--overwrite", fmt.Sprint("look-again=", i))
		eventually(t, "no node is chosen", chosen(0))
	}
}

// TestRuntimeClass runs the commands in docs/platforms.md for GPU nodes that have no label and need a runtime class.
func TestRuntimeClass(t *testing.T) {
	kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present-")
	defer kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present=true")
	folder := t.TempDir()
	t.Cleanup(func() { remove(t, "-k", folder) })
	nodes := strings.NewReplacer("gpu-001", "gpu-1", "gpu-002", "gpu-2")
	for _, command := range documented(t, "### Nodes of the overlay standalone", folder) {
		shell(t, folder, nodes.Replace(command))
	}
	for _, pod := range podsOf(t, "gpuledger", "gpuledger") {
		if class := pod.Spec.RuntimeClassName; class == nil || *class != "nvidia" {
			t.Errorf("the runtime class of %s is %v, want nvidia", pod.Name, class)
		}
	}
}

// TestPrepull checks that the commands in docs/platforms.md detect when all GPU nodes have the image. If no node is
// selected, the commands must not report success.
func TestPrepull(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	apply(t, "-k", overlay("example"))
	for _, pod := range podsOf(t, "gpuledger", "gpuledger-prepull") {
		if got := pod.Spec.ImagePullSecrets; len(got) != 1 || got[0].Name != "registry" {
			t.Errorf("the pull secrets of the pod are %v, want registry", got)
		}
		bind(t, &pod)
		ready := []byte(`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`) // the status that a kubelet would report
		_, err := world.Client.CoreV1().Pods("gpuledger").Patch(t.Context(), pod.Name, types.StrategicMergePatchType, ready, meta.PatchOptions{}, "status")
		check(t, err)
	}
	commands := documented(t, "## Pull the image in advance", "")
	shell(t, "", containing(t, commands, "rollout status"))
	if out := shell(t, "", containing(t, commands, "kubectl --namespace gpuledger wait")); strings.Count(out, "condition met") != 2 {
		t.Errorf("the output does not have a line for each of two nodes:\n%s", out)
	}

	// Without labels, no node is selected.
	kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present-")
	defer kubectl(t, "label", "node", "gpu-1", "gpu-2", "nvidia.com/gpu.present=true")
	eventually(t, "no node is chosen", func() bool {
		d, err := world.Client.AppsV1().DaemonSets("gpuledger").Get(t.Context(), "gpuledger-prepull", meta.GetOptions{})
		check(t, err)
		return d.Status.DesiredNumberScheduled == 0
	})
	forget(t, "gpuledger")
	shell(t, "", containing(t, commands, "rollout status"))
	if out, err := tryShell(t, "", containing(t, commands, "kubectl --namespace gpuledger wait")); err == nil || !strings.Contains(out, "no matching resources found") {
		t.Errorf("wait without a chosen node: %v, want an error for no matching resources:\n%s", err, out)
	}
	shell(t, "", containing(t, commands, "delete daemonset"))
}
