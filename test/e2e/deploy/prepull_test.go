//go:build e2e

package deploy_test

import (
	"fmt"
	"strings"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestGPUNodes: the overlay standalone chooses a node by the label of any of the programs that know
// GPU nodes, or of an administrator, and no node without one.
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
		// The controller does not look again at a node whose pod is not bound to it.
		kubectl(t, "annotate", "daemonset", "--namespace=gpuledger", "gpuledger", "--overwrite", fmt.Sprint("look-again=", i))
		eventually(t, "no node is chosen", chosen(0))
	}
}

// TestPrepull checks that the commands of docs/install.md detect that every GPU node has the image,
// and do not report success for a cluster without chosen nodes.
func TestPrepull(t *testing.T) {
	apply(t, "-k", overlay("example"))
	for _, pod := range podsOf(t, "gpuledger", "gpuledger-prepull") {
		if got := pod.Spec.ImagePullSecrets; len(got) != 1 || got[0].Name != "registry" {
			t.Errorf("the pod pulls with %v", got)
		}
		bind(t, &pod)
		ready := []byte(`{"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}`) // as from a kubelet
		_, err := world.Client.CoreV1().Pods("gpuledger").Patch(t.Context(), pod.Name, types.StrategicMergePatchType, ready, meta.PatchOptions{}, "status")
		check(t, err)
	}
	commands := documented(t, "### Pull before", "")
	shell(t, "", containing(t, commands, "rollout status"))
	if out := shell(t, "", containing(t, commands, "kubectl --namespace gpuledger wait")); strings.Count(out, "condition met") != 2 {
		t.Errorf("not a line for each node:\n%s", out)
	}

	// On nodes without labels.
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
		t.Errorf("without any node: %v\n%s", err, out)
	}
	shell(t, "", containing(t, commands, "delete daemonset"))
}
