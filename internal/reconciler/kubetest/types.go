package kubetest

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// merging describes how a server-side apply merges lists. The key of a condition is its type, and the key of a webhook
// is its name (x-kubernetes-list-map-keys in the OpenAPI specification of Kubernetes). An apply replaces all other
// lists.
const merging = `types:
- name: element
  scalar: untyped
  list: {elementType: {namedType: element}, elementRelationship: atomic}
  map: {elementType: {namedType: element}, elementRelationship: atomic}
- name: field
  scalar: untyped
  list: {elementType: {namedType: element}, elementRelationship: atomic}
  map: {elementType: {namedType: field}, elementRelationship: separable}
- name: object
  map:
    fields:
    - name: status
      type:
        map:
          fields:
          - name: conditions
            type: {list: {elementType: {namedType: field}, elementRelationship: associative, keys: [type]}}
          elementType: {namedType: field}
    - name: webhooks
      type: {list: {elementType: {namedType: field}, elementRelationship: associative, keys: [name]}}
    elementType: {namedType: field}
`

// types converts objects of all kinds with the rules of merging.
type types struct {
	managedfields.TypeConverter
	object typed.ParseableType
}

func newTypes() types {
	parser, err := typed.NewParser(merging)
	if err != nil {
		panic(err)
	}
	return types{managedfields.NewDeducedTypeConverter(), parser.Type("object")}
}

// ObjectToTyped implements [managedfields.TypeConverter].
func (t types) ObjectToTyped(object runtime.Object, options ...typed.ValidationOptions) (*typed.TypedValue, error) {
	if o, ok := object.(*unstructured.Unstructured); ok {
		return t.object.FromUnstructured(o.Object, options...)
	}
	return t.object.FromStructured(object, options...)
}
