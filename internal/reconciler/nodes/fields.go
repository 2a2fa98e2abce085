package nodes

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// manager is our name in a Node's managedFields.
const manager = "gpuledger"

// trim makes a Node small: thousands are held in memory, and little is asked of them.
func (o *Options) trim(obj any) (any, error) {
	n, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	kept := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name, UID: n.UID, ResourceVersion: n.ResourceVersion},
		Spec:       corev1.NodeSpec{ProviderID: n.Spec.ProviderID},
		Status:     corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{SystemUUID: n.Status.NodeInfo.SystemUUID}},
	}
	for _, e := range n.ManagedFields {
		if isOurs(e) || o.takesOver(e) {
			kept.ManagedFields = append(kept.ManagedFields, e)
		}
	}
	owned := ownedBy(kept, isOurs)
	kept.Annotations = filter(n.Annotations, func(key, _ string) bool { return o.ourKey(key) || owned.annotations[key] })
	kept.Labels = filter(n.Labels, func(key, value string) bool {
		return o.ourKey(key) || owned.labels[key] || slices.Contains(o.Expected, key+"="+value)
	})
	kept.Status.Allocatable = filter(n.Status.Allocatable, func(name corev1.ResourceName, _ resource.Quantity) bool {
		return o.Resources.MatchString(string(name))
	})
	return kept, nil
}

// filter returns a new map with what keep says: one that things are deleted from stays
// as large as it was.
func filter[M ~map[K]V, K comparable, V any](from M, keep func(K, V) bool) M {
	var to M
	for k, v := range from {
		if keep(k, v) {
			if to == nil {
				to = make(M)
			}
			to[k] = v
		}
	}
	return to
}

// ourKey reports whether a key is under one of our prefixes, slash included: a key of
// gpuid.github.community is somebody else's.
func (o *Options) ourKey(key string) bool {
	return strings.HasPrefix(key, o.Rules.Prefix+"/") || key == o.Rules.InventoryKey()
}

func isOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// takesOver reports whether the fields are those of a manager that we replace.
func (o *Options) takesOver(e metav1.ManagedFieldsEntry) bool {
	return o.Rules.Scheme == nodelabel.GPUID && o.TakeOver != "" && e.Manager == o.TakeOver &&
		e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// keys are the labels and annotations that a manager owns on a Node.
type keys struct{ labels, annotations map[string]bool }

func (k keys) empty() bool { return len(k.labels) == 0 && len(k.annotations) == 0 }

// ownedBy reads a Node's managedFields. What cannot be read is owned by nobody: then
// a write too many repairs it.
func ownedBy(n *corev1.Node, by func(metav1.ManagedFieldsEntry) bool) keys {
	k := keys{labels: make(map[string]bool), annotations: make(map[string]bool)}
	for _, e := range n.ManagedFields {
		if !by(e) || e.FieldsV1 == nil {
			continue
		}
		var fields struct {
			Metadata struct {
				Labels      map[string]struct{} `json:"f:labels"`
				Annotations map[string]struct{} `json:"f:annotations"`
			} `json:"f:metadata"`
		}
		if json.Unmarshal(e.FieldsV1.GetRawBytes(), &fields) != nil {
			continue
		}
		addNames(k.labels, fields.Metadata.Labels)
		addNames(k.annotations, fields.Metadata.Annotations)
	}
	return k
}

// addNames adds the names in "f:name"; a dot stands for the map itself.
func addNames(to map[string]bool, from map[string]struct{}) {
	for key := range from {
		if name, ok := strings.CutPrefix(key, "f:"); ok {
			to[name] = true
		}
	}
}

// bears reports whether a Node bears what it should, and by our hand, and nothing
// else that is ours.
func bears(n *corev1.Node, owned keys, want nodelabel.Desired) bool {
	return all(n.Labels, owned.labels, want.Labels) && all(n.Annotations, owned.annotations, want.Annotations)
}

func all(have map[string]string, owned map[string]bool, want map[string]string) bool {
	if len(owned) != len(want) {
		return false
	}
	for key, value := range want {
		if v, ok := have[key]; !ok || v != value || !owned[key] {
			return false
		}
	}
	return true
}
