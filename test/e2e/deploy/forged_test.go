//go:build e2e

package deploy_test

import (
	"context"
	"fmt"
	"testing"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/test/program"
)

// TestForgedExporter checks that the reconciler ignores forged exporters. A user has all rights in a namespace with the
// name of another installer's namespace. The user creates pods there that look like exporters. No Node may get labels
// from them, because the reconciler reads only the overlay's own DaemonSet.
func TestForgedExporter(t *testing.T) {
	binary := program.BuiltFor(t, "gpuledger-reconciler")
	t.Cleanup(func() { remove(t, "-k", "testdata/labels") }) // runs after the pods were deleted, because no kubelet ends them
	t.Cleanup(func() { unlabel(t, "gpu-1") })
	apply(t, "-k", overlay("standalone"))
	asked := standaloneOnNode1(t)
	forged := forgedOnNode2(t)
	kubectl(t, "apply", "--server-side", "-k", "testdata/labels")

	startReconciler(t, binary, deploymentArguments(t)...)
	eventually(t, "the Node has labels", func() bool { return labels(t, "gpu-1")["gpuledger.io/gpu-0"] == "1650000000001" })
	// The reconciler would read the forged pod within two more rounds.
	rounds := asked.Load() + 2
	eventually(t, "the exporter is read again", func() bool { return asked.Load() >= rounds })
	if n := forged.Load(); n > 0 {
		t.Errorf("the forged exporter was read %d times, want 0", n)
	}
	if got := labels(t, "gpu-2"); len(got) > 0 {
		t.Errorf("gpu-2 has the labels %v, want none", got)
	}
}

// unlabel removes the reconciler's fields from a Node, by an empty server-side apply.
func unlabel(t *testing.T, node string) {
	t.Helper()
	nothing := fmt.Sprintf(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": %q}}`, node)
	options := meta.PatchOptions{FieldManager: "gpuledger", Force: new(true)}
	_, err := world.Client.CoreV1().Nodes().Patch(context.Background(), node, types.ApplyPatchType, []byte(nothing), options)
	check(t, err)
}

// forgedOnNode2 creates a DaemonSet with a pod on gpu-2 that serves a forged page. The creator is a user with all
// rights in the namespace gpu-operator and no rights elsewhere. Load returns the number of requests for the page.
func forgedOnNode2(t *testing.T) interface{ Load() int64 } {
	t.Helper()
	const namespace, name = "gpu-operator", "nvidia-device-plugin-daemonset"
	kubectl(t, "create", "rolebinding", "--namespace="+namespace, "owner", "--clusterrole=admin", "--user=mallory")
	t.Cleanup(func() { remove(t, "rolebinding", "--namespace="+namespace, "owner") })
	port, asked := inventory(t, "gpu-2", "1660000000666")
	text := fmt.Sprintf(`{"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": %q, "namespace": %q}, "spec": {
		"selector": {"matchLabels": {"a": "b"}}, "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [
		{"name": "gpuledger", "image": "i", "ports": [{"name": "gpuledger", "containerPort": %d}]}]}}}}`, name, namespace, port)
	_, err := try(t, text, "create", "--as=mallory", "--filename=-")
	check(t, err)
	t.Cleanup(func() { remove(t, "daemonset", "--namespace="+namespace, name) })
	runs(t, onTheNode(t, podsOf(t, namespace, name), "gpu-2"))
	return asked
}
