package nodes

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unique"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

const manager = "gpuledger"

// node contains the parts of a Node that are kept in memory. Common strings are interned, because there may be
// thousands of Nodes.
type node struct {
	// ObjectMeta contains only the name, the UID, the resource version, this program's labels and annotations, and the
	// labels in --expected-labels.
	metav1.ObjectMeta
	owned      keys
	legacy     bool // whether fields of the Node belong to the field manager in --label-take-over
	gpus       bool // whether the Node has GPUs among its allocatable resources
	showsGPU   bool // whether a resource or label of the Node shows a GPU
	providerID string
	systemUUID string
	// condition is the condition that this program set, or zero.
	condition      condition
	conditionSince metav1.Time
}

func (o *Options) keep(obj any) (any, error) {
	from, ok := obj.(*corev1.Node)
	if !ok {
		return obj, nil
	}
	n := &node{
		ObjectMeta: metav1.ObjectMeta{Name: from.Name, UID: from.UID, ResourceVersion: from.ResourceVersion},
		owned:      ownedBy(from.ManagedFields),
		legacy:     slices.ContainsFunc(from.ManagedFields, o.takesOver),
		showsGPU:   o.showsGPU(from),
		providerID: from.Spec.ProviderID, systemUUID: from.Status.NodeInfo.SystemUUID,
	}
	if o.Condition {
		n.condition, n.conditionSince = conditionOf(from)
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

// longValue is the maximum length of a label value. Only longer values are interned.
const longValue = 63

func shared(s string) string { return unique.Make(s).Value() }

// ourKey reports whether this program owns a key. It compares the prefix including the slash, so that
// gpuid.github.community does not match gpuid.github.com.
func (o *Options) ourKey(key string) bool {
	return strings.HasPrefix(key, o.Rules.Prefix+"/") || key == o.Rules.InventoryKey()
}

func isOurs(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

func setsCondition(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == manager && e.Operation == metav1.ManagedFieldsOperationApply && e.FieldsV1 != nil && bytes.Contains(e.FieldsV1.GetRawBytes(), []byte(conditionType))
}

func (o *Options) takesOver(e metav1.ManagedFieldsEntry) bool {
	return o.Rules.Scheme == nodelabel.GPUID && o.TakeOver != "" && e.Manager == o.TakeOver &&
		e.Operation == metav1.ManagedFieldsOperationUpdate && e.Subresource == ""
}

// keys contains the names of the labels and annotations that this program owns on a Node.
type keys struct{ labels, annotations []string }

func (k keys) empty() bool { return len(k.labels) == 0 && len(k.annotations) == 0 }

// ownedBy returns the keys that this program owns according to a Node's managedFields. ownedBy ignores an unreadable
// entry, because a missing entry causes at most one unnecessary write.
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

// names returns the names of fields in managedFields, which contains them as "f:name". It skips the entry ".", which
// stands for the map itself.
func names(fields map[string]struct{}) []string {
	list := make([]string, 0, len(fields))
	for key := range fields {
		if name, ok := strings.CutPrefix(key, "f:"); ok {
			list = append(list, shared(name))
		}
	}
	return list
}

// matches reports whether this program owns exactly the desired labels and annotations, with the desired values.
func (n *node) matches(want nodelabel.Desired) bool {
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
