package nodes

import (
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields)}
}

func ours(fields string) metav1.ManagedFieldsEntry { return entry("gpuledger", "Apply", fields) }

func testOptions(scheme nodelabel.Scheme, prefix string) *Options {
	return &Options{
		Rules:     nodelabel.Rules{Scheme: scheme, Prefix: prefix},
		Resources: regexp.MustCompile(`^nvidia\.com/`), Expected: cli.List{"nvidia.com/gpu.present=true"}, TakeOver: "gpuid",
	}
}

const applied = `{"f:metadata":{"f:annotations":{"f:gpuledger.io/inventory":{}},"f:labels":{"f:gpuledger.io/gpu-0":{},"f:gpuledger.io/gpu-count":{}}}}`

func TestBears(t *testing.T) {
	want := nodelabel.Desired{
		Labels:      map[string]string{"gpuledger.io/gpu-0": "1654", "gpuledger.io/gpu-count": "1"},
		Annotations: map[string]string{"gpuledger.io/inventory": "{}"},
	}
	good := func() *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
			Labels:        map[string]string{"gpuledger.io/gpu-0": "1654", "gpuledger.io/gpu-count": "1", "gpuledger.io/team": "theirs", "zone": "one"},
			Annotations:   map[string]string{"gpuledger.io/inventory": "{}", "other": "x"},
			ManagedFields: []metav1.ManagedFieldsEntry{entry("kubelet", "Update", applied), ours(applied)},
		}}
	}
	tests := []struct {
		name string
		edit func(*corev1.Node)
		want bool
	}{
		{"the desired state", func(*corev1.Node) {}, true},
		{"a label was changed", func(n *corev1.Node) { n.Labels["gpuledger.io/gpu-0"] = "other" }, false},
		{"a label was removed", func(n *corev1.Node) { delete(n.Labels, "gpuledger.io/gpu-count") }, false},
		{"the annotation was removed", func(n *corev1.Node) { n.Annotations = nil }, false},
		{"another manager owns a label", func(n *corev1.Node) {
			n.ManagedFields[1] = ours(`{"f:metadata":{"f:annotations":{"f:gpuledger.io/inventory":{}},"f:labels":{"f:gpuledger.io/gpu-0":{}}}}`)
		}, false},
		{"we still own an old label", func(n *corev1.Node) {
			n.ManagedFields[1] = ours(`{"f:metadata":{"f:annotations":{".":{},"f:gpuledger.io/inventory":{}},"f:labels":{".":{},"f:gpuledger.io/gpu-0":{},"f:gpuledger.io/gpu-count":{},"f:gpuledger.io/gpu-1":{}}}}`)
		}, false},
		{"we own nothing", func(n *corev1.Node) { n.ManagedFields = n.ManagedFields[:1] }, false},
		{"our entry cannot be read", func(n *corev1.Node) { n.ManagedFields[1] = ours(`{"f:metadata":[`) }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := good()
			tt.edit(n)
			if got := kept(t, n).matches(want); got != tt.want {
				t.Errorf("matches: %v, want %v", got, tt.want)
			}
		})
	}
	if !kept(t, &corev1.Node{}).matches(nodelabel.Desired{}) {
		t.Error("a Node without labels does not match a desired state without labels")
	}
}

func kept(t *testing.T, n *corev1.Node) *node {
	t.Helper()
	obj, err := testOptions(nodelabel.Own, "gpuledger.io").keep(n)
	if err != nil {
		t.Fatal(err)
	}
	return obj.(*node)
}

func TestKeep(t *testing.T) {
	status := ours(`{"f:status":{}}`)
	status.Subresource = "status"
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "u1", ResourceVersion: "17", Finalizers: []string{"x"},
			Labels: map[string]string{
				"gpuledger.io/gpu-0": "1", "gpuledger.io/team": "theirs", "old.example.com/gpu-0": "1", "zone": "one",
				"nvidia.com/gpu.present": "true", "gpuledger.iox/a": "b",
			},
			Annotations: map[string]string{"gpuledger.io/inventory": "{}", "volumes": "many"},
			ManagedFields: []metav1.ManagedFieldsEntry{
				entry("kubelet", "Update", `{}`), ours(`{"f:metadata":{"f:labels":{"f:old.example.com/gpu-0":{}}}}`),
				status, entry("gpuid", "Update", `{}`), entry("gpuledger", "Update", `{}`),
			},
		},
		Spec: corev1.NodeSpec{ProviderID: "aws:///a/i-1", PodCIDR: "10.0.0.0/24"},
		Status: corev1.NodeStatus{
			Allocatable: corev1.ResourceList{"cpu": resource.MustParse("64"), "nvidia.com/gpu": resource.MustParse("8")},
			NodeInfo:    corev1.NodeSystemInfo{SystemUUID: "S", KernelVersion: "6"},
			Images:      []corev1.ContainerImage{{SizeBytes: 1}},
		},
	}
	want := &node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "a", UID: "u1", ResourceVersion: "17",
			Labels:      map[string]string{"gpuledger.io/gpu-0": "1", "gpuledger.io/team": "theirs", "old.example.com/gpu-0": "1", "nvidia.com/gpu.present": "true"},
			Annotations: map[string]string{"gpuledger.io/inventory": "{}"},
		},
		owned: keys{labels: []string{"old.example.com/gpu-0"}},
		gpus:  true, showsGPU: true, providerID: "aws:///a/i-1", systemUUID: "S",
	}
	if diff := cmp.Diff(want, kept(t, n), cmp.AllowUnexported(node{}, keys{}, condition{}), cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("node (-want +got):\n%s", diff)
	}
	n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("0")
	if kept(t, n).gpus {
		t.Error("a Node with 0 allocatable GPUs counts as having GPUs")
	}
}

// TestTakesOver checks that the program takes over the fields of gpuid's field manager and no other fields. It also
// checks which keys count as the program's own keys.
func TestTakesOver(t *testing.T) {
	o := testOptions(nodelabel.GPUID, "gpuid.github.com")
	if !o.takesOver(entry("gpuid", "Update", `{}`)) || o.takesOver(entry("gpuid", "Apply", `{}`)) || o.takesOver(entry("gpuidx", "Update", `{}`)) {
		t.Error("the wrong manager is taken over")
	}
	if !o.ourKey("gpuid.github.com/gpu-0") || !o.ourKey("gpuledger.io/inventory") || o.ourKey("gpuid.github.community/x") || o.ourKey("gpuledger.io/gpu-0") {
		t.Error("the wrong keys count as ours")
	}
	if o = testOptions(nodelabel.Own, "gpuledger.io"); o.takesOver(entry("gpuid", "Update", `{}`)) {
		t.Error("gpuid's labels are taken over in our own scheme")
	}
}

func FuzzOwnedBy(f *testing.F) {
	f.Add(applied)
	f.Add(`{"f:metadata":{"f:labels":{"f:":{},"k:x":{}}}}`)
	f.Fuzz(func(t *testing.T, fields string) {
		n := &node{owned: ownedBy([]metav1.ManagedFieldsEntry{ours(fields)})}
		if !n.owned.empty() && n.matches(nodelabel.Desired{}) {
			t.Errorf("a Node with %v matches a desired state without labels", n.owned)
		}
	})
}
