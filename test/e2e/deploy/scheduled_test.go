//go:build e2e

package deploy_test

import (
	"context"
	"slices"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// TestScheduled checks that the scheduler assigns pods to their nodes after the policy has changed them. It must also
// find a node for the reconciler.
func TestScheduled(t *testing.T) {
	operator := installers[2]
	apply(t, "-f", operator.file())
	first := podsOf(t, operator.namespace, operator.daemonSet)
	apply(t, "-k", overlay("operator"))
	chooseAll(t)
	policyActs(t, operator, &first[0])
	pods := renew(t, operator, first)

	giveRoom(t)
	// Every node has this taint, and the device plugin tolerates it.
	kubectl(t, "taint", "node", "gpu-1", "gpu-2", "nvidia.com/gpu=:NoSchedule")
	defer kubectl(t, "taint", "node", "gpu-1", "gpu-2", "nvidia.com/gpu:NoSchedule-")
	stop, err := world.StartScheduler()
	check(t, err)
	t.Cleanup(func() {
		stop()
		forget(t, operator.namespace, "gpuledger")
	})
	eventually(t, "the pods are scheduled", func() bool {
		pods = podsOf(t, operator.namespace, operator.daemonSet)
		return !slices.ContainsFunc(pods, func(p core.Pod) bool { return p.Spec.NodeName == "" })
	})
	for i := range pods {
		if !hasSidecar(&pods[i]) || pods[i].Spec.NodeName != node(&pods[i]) {
			t.Errorf("pod for %s: on %s, has the container: %v, want its node and the container", node(&pods[i]), pods[i].Spec.NodeName, hasSidecar(&pods[i]))
		}
	}
	eventually(t, "the reconciler's pods are scheduled", func() bool {
		ours := ourPods(t)
		return len(ours) == 2 && !slices.ContainsFunc(ours, func(p core.Pod) bool { return p.Spec.NodeName == "" })
	})
}

// giveRoom sets the capacity of the nodes, as a kubelet does.
func giveRoom(t *testing.T) {
	t.Helper()
	const room = `{"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}`
	for _, name := range []string{"gpu-1", "gpu-2"} {
		patch := []byte(`{"status": {"capacity": ` + room + `, "allocatable": ` + room + `}}`)
		_, err := world.Client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType, patch, meta.PatchOptions{}, "status")
		check(t, err)
	}
}

// forget deletes pods without a grace period, because no kubelet would report that they have ended.
func forget(t *testing.T, namespaces ...string) {
	t.Helper()
	for _, namespace := range namespaces {
		now := meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		if err := world.Client.CoreV1().Pods(namespace).DeleteCollection(context.Background(), now, meta.ListOptions{}); err != nil {
			t.Error(err)
		}
	}
}
