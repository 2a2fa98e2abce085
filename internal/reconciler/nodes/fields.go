package nodes

import (
	"encoding/json"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// manager is our name in a Node's managedFields.
const manager = "gpuledger"

// node is what is kept of a Node in the informer's store: thousands are held in
// memory, and little is asked of them. Strings that many Nodes have are held once.
type node struct {
	// ObjectMeta has name, UID, resource version, and the labels and annotations that
	// are ours or may be asked for.
	metav1.ObjectMeta
	owned      keys
	legacy     bool // has fields of the manager that we replace
	gpus       bool // has them among its allocatable resources
	providerID string
	systemUUID string
}

// keep makes a node of a Node.
func (o *Options) keep(obj any) (any, error) {
	from, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	n := &node{
		ObjectMeta: metav1.ObjectMeta{Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion},
		owned:      ownedBy(from.ManagedFields),
		legacy:     slices.ContainsFunc(from.ManagedFields, o.takesOver),
		providerID: from.Spec.ProviderID, systemUUID: from.Status.NodeInfo.SystemUUID,
	}
	n.Annotations = filter(from.Annotations, func(key, _ string) bool { return o.ourKey(key) || slices.Contains(n.owned.annotations, key) })
	n.Labels = filter(from.Labels, func(key, value string) bool {
		return o.ourKey(key) || slices.Contains(n.owned.labels, key) || slices.Contains(o.Expected, key+"="+value)
	})
	for name, quantity := range from.Status.Allocatable {
		n.gpus = n.gpus || o.Resources.MatchString(string(name)) && !quantity.IsZero()
	}
	return n, nil
}

// filter returns a new map with what keep says: one that things are deleted from stays
// as large as it was.
func filter(from map[string]string, keep func(key, value string) bool) map[string]string {
	to := make(map[string]string)
	for key, value := range from {
		if keep(key, value) {
			if len(value) > longValue {
				value = shared(value)
			}
			to[shared(key)] = value
		}
	}
	return to
}

// longValue is from where it is worth it to hold a value once: labels are shorter.
const longValue = 63

// shared returns the one copy of a string that is held.
func shared(s string) string { return unique.Make(s).Value() }

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

// keys are the names of labels and annotations that we own on a Node.
type keys struct{ labels, annotations []string }

func (k keys) empty() bool { return len(k.labels) == 0 && len(k.annotations) == 0 }

// ownedBy reads a Node's managedFields. What cannot be read is owned by nobody: then
// a write too many repairs it.
func ownedBy(entries []metav1.ManagedFieldsEntry) keys {
	var k keys
	for _, e := range entries {
		if !isOurs(e) || e.FieldsV1 == nil {
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
		k.labels = append(k.labels, names(fields.Metadata.Labels)...)
		k.annotations = append(k.annotations, names(fields.Metadata.Annotations)...)
	}
	return k
}

// names returns the names in "f:name"; a dot stands for the map itself.
func names(fields map[string]struct{}) []string {
	list := make([]string, 0, len(fields))
	for key := range fields {
		if name, ok := strings.CutPrefix(key, "f:"); ok {
			list = append(list, shared(name))
		}
	}
	return list
}

// bears reports whether a Node bears what it should, and by our hand, and nothing
// else that is ours.
func (n *node) bears(want nodelabel.Desired) bool {
	return all(n.Labels, n.owned.labels, want.Labels) && all(n.Annotations, n.owned.annotations, want.Annotations)
}

func all(have map[string]string, owned []string, want map[string]string) bool {
	if len(owned) != len(want) {
		return false
	}
	for key, value := range want {
		if v, ok := have[key]; !ok || v != value || !slices.Contains(owned, key) {
			return false
		}
	}
	return true
}
