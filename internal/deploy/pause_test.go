//go:build e2e

package deploy_test

import (
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// The GPU Operator pauses the device plugin on a node with this label. k8s-driver-manager and mig-parted set these
// values.
const pluginLabel = "nvidia.com/gpu.deploy.device-plugin"

var pauses = []string{"paused-for-driver-upgrade", "paused-for-mig-change"}

// TestPausedNodes checks that the exporter's own DaemonSet does not run on nodes on which the GPU Operator pauses the
// programs that use the driver. On all other nodes, it must run.
func TestPausedNodes(t *testing.T) {
	checked := 0
	rendered(t, func(t *testing.T, w *workload) {
		if w.Kind != "DaemonSet" || w.Name != "gpuledger" || strings.Contains(t.Name(), "/amd.yaml/") {
			return
		}
		pod := w.Spec.Template.Spec
		for _, term := range nodeTerms(pod) {
			node := map[string]string{}
			for _, r := range term.MatchExpressions {
				if r.Operator == corev1.NodeSelectorOpIn || r.Operator == corev1.NodeSelectorOpExists {
					node[r.Key] = append(r.Values, "any")[0]
				}
			}
			maps.Copy(node, pod.NodeSelector)
			if !selects(t, pod, node) {
				t.Errorf("no pod on a node with %v", node)
			}
			node[pluginLabel] = "true"
			if !selects(t, pod, node) {
				t.Errorf("no pod on a node with %v", node)
			}
			for _, node[pluginLabel] = range pauses {
				if checked++; selects(t, pod, node) {
					t.Errorf("a pod on a node with %v", node)
				}
			}
		}
	})
	if checked < 2*9 {
		t.Errorf("%d cases, want at least 18", checked)
	}
}

func nodeTerms(pod corev1.PodSpec) []corev1.NodeSelectorTerm {
	if pod.Affinity == nil {
		return []corev1.NodeSelectorTerm{{}}
	}
	return pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

func selects(t *testing.T, pod corev1.PodSpec, node map[string]string) bool {
	t.Helper()
	operators := map[corev1.NodeSelectorOperator]selection.Operator{
		corev1.NodeSelectorOpIn: selection.In, corev1.NodeSelectorOpNotIn: selection.NotIn,
		corev1.NodeSelectorOpExists: selection.Exists, corev1.NodeSelectorOpDoesNotExist: selection.DoesNotExist,
	}
	if !labels.SelectorFromSet(pod.NodeSelector).Matches(labels.Set(node)) {
		return false
	}
	for _, term := range nodeTerms(pod) {
		selector := labels.NewSelector()
		for _, r := range term.MatchExpressions {
			requirement, err := labels.NewRequirement(r.Key, operators[r.Operator], r.Values)
			check(t, err)
			selector = selector.Add(*requirement)
		}
		if selector.Matches(labels.Set(node)) {
			return true
		}
	}
	return false
}
