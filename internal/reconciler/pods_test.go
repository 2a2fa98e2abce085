package reconciler

import (
	"log/slog"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
	"github.com/gpuledger/gpuledger/internal/reconciler/nodes"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

// TestTrim checks which pods are stored for which package. A pod with the exporter must be stored for package nodes
// even if it requests GPUs. Other pods that request GPUs must be stored for package workloads.
func TestTrim(t *testing.T) {
	claim := []corev1.PodResourceClaim{{Name: "gpus", ResourceClaimName: new("all-gpus")}}
	gpu := corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}
	tests := []struct {
		name, args, owner string
		claims            []corev1.PodResourceClaim
		requests          corev1.ResourceList
		node              string
		exporter          bool
	}{
		{"plain exporter", "", "exporter", nil, nil, "n", true},
		{"exporter with a claim", "", "exporter", claim, nil, "n", true},
		{"exporter with a GPU", "", "exporter", nil, gpu, "n", true},
		{"workload with a claim", "", "another", claim, nil, "n", false},
		{"workload with a GPU", "", "another", nil, gpu, "n", false},
		{"no component needs exporters", "--enable=workloads", "exporter", claim, nil, "n", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			kept := trimmed(t, tt.args, exporterPod(tt.owner, tt.claims, tt.requests, tt.node))
			found, ok := kept.(*exporter.Pod)
			if got := ok && found.Target != nil; got != tt.exporter {
				t.Errorf("kept as %T, exporter %v, want %v", kept, got, tt.exporter)
			}
		})
	}
	if kept, ok := trimmed(t, "", exporterPod("exporter", claim, gpu, "")).(*exporter.Pod); !ok || kept.Target != nil {
		t.Errorf("an exporter without a node is kept as %T, want a pod that is neither a workload nor a target", kept)
	}
}

func trimmed(t *testing.T, enable string, pod *corev1.Pod) any {
	t.Helper()
	args := []string{"--exporter.daemonsets=monitoring/exporter"}
	if enable != "" {
		args = append(args, enable)
	}
	cfg, err := Parse(args, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	p := &program{cfg: cfg, log: log, nodes: nodes.New(cfg.Labels, log), workloads: workloads.New(cfg.Workloads, log)}
	kept, err := p.trim(pod)
	if err != nil {
		t.Fatal(err)
	}
	return kept
}

func exporterPod(daemonSet string, claims []corev1.PodResourceClaim, requests corev1.ResourceList, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "p", UID: "u", OwnerReferences: []metav1.OwnerReference{
			{APIVersion: "apps/v1", Kind: "DaemonSet", Name: daemonSet, UID: "d", Controller: new(true)},
		}},
		Spec: corev1.PodSpec{
			NodeName: node, ResourceClaims: claims,
			Containers: []corev1.Container{{Name: "gpuledger", Resources: corev1.ResourceRequirements{Requests: requests}}},
		},
	}
}
