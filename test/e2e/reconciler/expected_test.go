//go:build e2e

package reconciler_test

import (
	"context"
	"testing"

	core "k8s.io/api/core/v1"
	dra "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestExpected checks each source from which the reconciler derives that a node should have an exporter.
func TestExpected(t *testing.T) {
	servesClaims(t)
	n := newNode(t, "a", "1")
	n.deletePod() // this node has GPUs and no exporter
	nodes := world.Client.CoreV1().Nodes()
	for name, labels := range map[string]map[string]string{
		"b": nil, "c": {"nvidia.com/gpu.present": "true"}, "d": {"nvidia.com/gpu.present": "false"},
	} {
		must(nodes.Create(t.Context(), &core.Node{ObjectMeta: meta.ObjectMeta{Name: name, Labels: labels}}, meta.CreateOptions{}))(t)
		t.Cleanup(func() { _ = nodes.Delete(context.Background(), name, meta.DeleteOptions{}) })
	}
	slices := world.Client.ResourceV1().ResourceSlices()
	slice := &dra.ResourceSlice{ObjectMeta: meta.ObjectMeta{Name: "b-gpus"}, Spec: dra.ResourceSliceSpec{
		Driver: "gpu.nvidia.com", NodeName: new("b"), Pool: dra.ResourcePool{Name: "b", ResourceSliceCount: 1},
		Devices: []dra.Device{{Name: "gpu-0"}},
	}}
	must(slices.Create(t.Context(), slice, meta.CreateOptions{}))(t)
	t.Cleanup(func() { _ = slices.Delete(context.Background(), slice.Name, meta.DeleteOptions{}) })

	r := lead(t, "--enable=labels")
	const metric = "gpuledger_node_expected"
	for node, reason := range map[string]string{"a": "allocatable", "b": "resource_slice", "c": "label"} {
		eventually(t, node+" is expected by its "+reason, func() bool {
			return r.value(metric, map[string]string{"node": node, "reason": reason}) == 1
		})
	}
	if all := r.scrape().Matches(metric, nil); len(all) != 3 {
		t.Errorf("%d series, want 3: %v", len(all), all)
	}
	check(t, slices.Delete(t.Context(), slice.Name, meta.DeleteOptions{}))
	eventually(t, "b is not expected without its slice", func() bool {
		return len(r.scrape().Matches(metric, map[string]string{"node": "b"})) == 0
	})
}

// TestClaims checks that a pod that requests GPUs with a ResourceClaim counts as a GPU pod.
func TestClaims(t *testing.T) {
	servesClaims(t)
	newTeam(t)
	claims := world.Client.ResourceV1().ResourceClaims(team)
	claim := &dra.ResourceClaim{ObjectMeta: meta.ObjectMeta{Name: "two-gpus"}, Spec: dra.ResourceClaimSpec{Devices: dra.DeviceClaim{
		Requests: []dra.DeviceRequest{{Name: "gpus", Exactly: &dra.ExactDeviceRequest{DeviceClassName: "gpu.nvidia.com", Count: 2}}},
	}}}
	must(claims.Create(t.Context(), claim, meta.CreateOptions{}))(t)
	t.Cleanup(func() { _ = claims.Delete(context.Background(), claim.Name, meta.DeleteOptions{}) })
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "claims"}, Spec: core.PodSpec{
		Containers: []core.Container{{Name: "c", Image: "i", Resources: core.ResourceRequirements{
			Claims: []core.ResourceClaim{{Name: "gpus"}},
		}}},
		ResourceClaims: []core.PodResourceClaim{{Name: "gpus", ResourceClaimName: new("two-gpus")}},
	}}
	must(world.Client.CoreV1().Pods(team).Create(t.Context(), pod, meta.CreateOptions{}))(t)

	r := lead(t, "--enable=workloads")
	r.awaitPods("Pod", "claims", 1)
	eventually(t, "the pod requests the claim's GPUs", func() bool {
		return r.value("gpuledger_pod_gpu_requests", map[string]string{"pod": "claims", "resource": "gpu.nvidia.com"}) == 2
	})
}

// The API server must be of Kubernetes 1.34 or newer.
func servesClaims(t *testing.T) {
	t.Helper()
	if _, err := world.Client.Discovery().ServerResourcesForGroupVersion(dra.SchemeGroupVersion.String()); apierrors.IsNotFound(err) {
		t.Skip("the API server does not serve resource.k8s.io/v1")
	}
}
