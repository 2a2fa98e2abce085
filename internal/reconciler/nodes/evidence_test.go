package nodes

import (
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/health"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// bareResources and bareLabels contain resources and labels of Nodes without GPUs.
var (
	bareResources = corev1.ResourceList{
		"cpu": resource.MustParse("64"), "memory": resource.MustParse("1Ti"), "hugepages-2Mi": resource.MustParse("0"),
		"pods": resource.MustParse("110"), "rdma/hca_shared": resource.MustParse("63"), "vpc.amazonaws.com/efa": resource.MustParse("4"),
		"smarter-devices/fuse": resource.MustParse("20"),
	}
	bareLabels = map[string]string{
		"kubernetes.io/hostname": "n", "node.kubernetes.io/instance-type": "BM.Standard.E5.192", "accelerator": "none",
		"nvidia.com/gpu.present": "false", "feature.node.kubernetes.io/pci-15b3.present": "true", "feature.node.kubernetes.io/cpu-model.vendor_id": "AMD",
		"gpuledger.io/gpu-0": "forged",
	}
)

// TestEvidence checks that a Node is labelled only if there is evidence of a GPU, such as a resource or label. A user
// with rights in only one namespace cannot create such evidence.
func TestEvidence(t *testing.T) {
	has := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Allocatable[corev1.ResourceName(name)] = resource.MustParse("8") }
	}
	down := func(name string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Status.Capacity[corev1.ResourceName(name)] = resource.MustParse("0") }
	}
	labelled := func(key, value string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Labels[key] = value }
	}
	tests := []struct {
		name   string
		change func(*corev1.Node)
		want   bool
	}{
		{"a machine without GPUs", func(*corev1.Node) {}, false},
		{"no status", func(n *corev1.Node) { n.Status, n.Labels = corev1.NodeStatus{}, nil }, false},
		{"a label and annotation like ours, by another manager", func(n *corev1.Node) {
			n.Annotations = map[string]string{"gpuledger.io/inventory": "{}"}
			n.ManagedFields = []metav1.ManagedFieldsEntry{entry("kubectl", "Apply", applied), entry("gpuledger", "Update", applied)}
		}, false},
		{"the condition of another manager", func(n *corev1.Node) {
			n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		}, false},

		{"NVIDIA's plugin", has("nvidia.com/gpu"), true},
		{"NVIDIA's plugin is down", down("nvidia.com/gpu"), true},
		{"shared", has("nvidia.com/gpu.shared"), true},
		{"MIG", has("nvidia.com/mig-1g.10gb"), true},
		{"renamed", has("nvidia.com/h100-half"), true},
		{"passthrough by KubeVirt", has("nvidia.com/GH100_H100_SXM5_80GB"), true},
		{"HAMi", has("nvidia.com/gpucores"), true},
		{"Volcano", has("volcano.sh/vgpu-number"), true},
		{"Volcano's memory", has("volcano.sh/gpu-memory"), true},
		{"another plugin", has("aliyun.com/gpu-mem"), true},
		{"AMD's plugin", has("amd.com/gpu"), true},
		{"AMD's partitions", has("amd.com/cpx_nps4"), true},
		{"GPU Operator and feature discovery", labelled("nvidia.com/gpu.present", "true"), true},
		{"NFD by vendor", labelled("feature.node.kubernetes.io/pci-10de.present", "true"), true},
		{"NFD by class", labelled("feature.node.kubernetes.io/pci-0302_10de.present", "true"), true},
		{"NFD, AMD", labelled("feature.node.kubernetes.io/pci-1002.present", "true"), true},
		{"AMD's operator", labelled("feature.node.kubernetes.io/amd-gpu", "true"), true},
		{"AMD's labeller", labelled("amd.com/gpu.vram", "192G"), true},
		{"GKE", labelled("cloud.google.com/gke-accelerator", "nvidia-h100-80gb"), true},
		{"EKS Auto Mode", labelled("eks.amazonaws.com/instance-gpu-manufacturer", "nvidia"), true},
		{"Karpenter", labelled("karpenter.k8s.aws/instance-gpu-manufacturer", "nvidia"), true},
		{"AKS", labelled("kubernetes.azure.com/accelerator", "nvidia"), true},
		{"OKE", labelled("node.kubernetes.io/instance-type", "BM.GPU.H100.8"), true},
		{"the site's label", labelled("example.com/gpus", "yes"), true},
		{"another value of the site's label", labelled("example.com/gpus", "no"), false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.opts.Expected = append(w.opts.Expected, "example.com/gpus=yes")
				n := bareNode("a", "u1")
				n.Status.Capacity, n.Status.Allocatable, n.Labels = maps.Clone(bareResources), maps.Clone(bareResources), maps.Clone(bareLabels)
				tt.change(n)
				w.create(n)
				w.createPod("a", worldDaemonSetUID)
				w.setSerial("a", "a-1")
				trm, stop := w.lead()
				defer stop()
				w.wait(15 * time.Minute)
				if got := w.labels("a")["gpu-0"] == "a-1"; got != tt.want {
					t.Errorf("labelled: %v, want %v; labels %v", got, tt.want, w.labels("a"))
				}
				want := validator.Settled
				if !tt.want {
					want = validator.NoGPU
				}
				if got := trm.validator.Findings(time.Now())["a"].State; got != want {
					t.Errorf("state %q, want %q", got, want)
				}
			})
		})
	}
}

// TestForgedExporter creates a forged exporter's pod on a Node without GPUs. Its page contains the GPUs of another
// Node. The labels of both Nodes must not change.
func TestForgedExporter(t *testing.T) {
	for _, condition := range []bool{false, true} { // in the fake API server, writing the condition removes the labels
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.opts.Condition = condition
			w.createExporter("real")
			w.setHealth("real", health.OK, "")
			w.create(bareNode("victim", "u2"))
			for _, node := range []string{"victim", "unregistered"} {
				w.createPod(node, worldDaemonSetUID)
				w.setSerial(node, "real-1")
				w.setHealth(node, health.Return, "64")
			}
			trm, stop := w.lead()
			defer stop()
			w.wait(15 * time.Minute)
			if got := w.readSince(time.Time{}); !slices.Equal(got, []string{"real"}) {
				t.Errorf("read the exporters of %v, want only the exporter of the Node with GPUs", got)
			}
			if got := trm.fleet.census(); got[conditionAnswering] != 1 || got[conditionUnread] != 2 {
				t.Errorf("exporters by condition: %v, want 1 answering and 2 unread", got)
			}
			if got := w.labels("victim"); len(got) > 0 {
				t.Errorf("labels of the Node without GPUs: %v", got)
			}
			if got := w.condition("victim"); got != nil {
				t.Errorf("condition of the Node without GPUs: %+v", got)
			}
			if got := w.labels("real")["gpu-0"]; got != "real-1" && !condition {
				t.Errorf("serial of the real board is %q, want real-1", got)
			}
			if condition && w.condition("real") == nil {
				t.Error("the real Node has no condition")
			}
		})
	}
}

// TestEvidenceLater checks that a Node is labelled within a minute after evidence of its GPUs appears. When the
// evidence disappears, the Node must keep its labels.
func TestEvidenceLater(t *testing.T) {
	update := func(change func(*corev1.Node)) func(*world) {
		return func(w *world) {
			n, err := w.kube.Nodes().Get(w.t.Context(), "a", metav1.GetOptions{})
			w.check(err)
			change(n)
			_, err = w.kube.Nodes().Update(w.t.Context(), n, metav1.UpdateOptions{})
			w.check(err)
		}
	}
	publish := func(driver string) func(*world) {
		return func(w *world) {
			slice := &resourcev1.ResourceSlice{
				ObjectMeta: metav1.ObjectMeta{Name: "s1"}, Spec: resourcev1.ResourceSliceSpec{Driver: driver, NodeName: new("a")},
			}
			_, err := w.kube.ResourceSlices().Create(w.t.Context(), slice, metav1.CreateOptions{})
			w.check(err)
		}
	}
	withdraw := func(w *world) {
		w.check(w.kube.ResourceSlices().Delete(w.t.Context(), "s1", metav1.DeleteOptions{}))
	}
	var listed atomic.Bool
	tests := []struct {
		name       string
		show, hide func(*world)
		within     time.Duration
		never      bool
	}{
		{"plugin", update(func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("0")}
		}), update(func(n *corev1.Node) { n.Status.Allocatable = nil }), time.Minute, false},
		{"label", update(func(n *corev1.Node) { n.Labels = map[string]string{"nvidia.com/gpu.present": "true"} }), update(func(n *corev1.Node) { delete(n.Labels, "nvidia.com/gpu.present") }), time.Minute, false},
		{"NVIDIA's DRA driver", publish("gpu.nvidia.com"), withdraw, time.Minute, false},
		{"AMD's DRA driver", publish("gpu.amd.com"), withdraw, time.Minute, false},
		{"HAMi's DRA driver", publish("hami-core-gpu.project-hami.io"), withdraw, time.Minute, false},
		{"a DRA driver of networks", publish("dra.net"), withdraw, 15 * time.Minute, true},
		{"the expected inventory", func(*world) { listed.Store(true) }, func(*world) { listed.Store(false) }, 15 * time.Minute, false},
	}
	for _, after := range []time.Duration{10 * time.Second, time.Hour} {
		for _, tt := range tests {
			t.Run(tt.name+" after "+after.String(), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t)
					w.kube.Resources = append(w.kube.Resources, &metav1.APIResourceList{
						GroupVersion: resourcev1.SchemeGroupVersion.String(), APIResources: []metav1.APIResource{{Name: "resourceslices"}},
					})
					listed.Store(false)
					w.opts.Listed = func(string) bool { return listed.Load() }
					w.create(bareNode("a", "u1"))
					w.createPod("a", worldDaemonSetUID)
					w.setSerial("a", "a-1")
					_, stop := w.lead()
					w.wait(after)
					if got := w.labels("a"); len(got) > 0 {
						t.Fatalf("labels before: %v", got)
					}
					tt.show(w)
					w.wait(tt.within)
					if got := w.labels("a")["gpu-0"] == "a-1"; got == tt.never {
						t.Fatalf("labels: %v", w.labels("a"))
					}
					tt.hide(w)
					stop()
					if tt.never {
						return
					}
					_, stop = w.lead()
					defer stop()
					w.setSerial("a", "a-2")
					w.wait(time.Hour)
					if got := w.labels("a")["gpu-0"]; got != "a-2" {
						t.Errorf("after the evidence disappeared, the labels are %v", w.labels("a"))
					}
				})
			})
		}
	}
}
