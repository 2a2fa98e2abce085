package deploy

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// literal formats a value of the Kubernetes API as an expression in the Common Expression Language (CEL). typ is the
// value's CEL type, such as Object.spec.containers. It contains the names of the fields that lead from the object to
// the value.
//
// A string "${name}" becomes a reference to the policy's variable with this name. literal panics if CEL does not
// support the value, so an invalid policy is never generated.
func literal(typ string, value any) string {
	return celValue(typ, reflect.ValueOf(value))
}

func celValue(typ string, v reflect.Value) string {
	if q, ok := reflect.TypeAssert[resource.Quantity](v); ok {
		return celString(q.String())
	}
	switch v.Kind() {
	case reflect.Pointer:
		return celValue(typ, v.Elem())
	case reflect.Struct:
		return typ + "{" + strings.Join(celFields(typ, v), ", ") + "}"
	case reflect.Slice:
		var items []string
		for i := range v.Len() {
			items = append(items, celValue(typ, v.Index(i)))
		}
		return "[" + strings.Join(items, ", ") + "]"
	case reflect.Map:
		return celMap(typ, v)
	case reflect.String:
		return celString(v.String())
	case reflect.Bool, reflect.Int32, reflect.Int64:
		return fmt.Sprint(v.Interface())
	}
	panic(fmt.Sprintf("%s: cannot write a %s in CEL", typ, v.Type()))
}

func celFields(typ string, v reflect.Value) []string {
	var fields []string
	for i := range v.NumField() {
		field := v.Type().Field(i)
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case v.Field(i).IsZero():
		case field.Anonymous && name == "": // embedded field
			fields = append(fields, celFields(typ, v.Field(i))...)
		default:
			fields = append(fields, name+": "+celValue(typ+"."+name, v.Field(i)))
		}
	}
	return fields
}

func celMap(typ string, v reflect.Value) string {
	entries := make(map[string]string)
	for _, key := range v.MapKeys() {
		entries[key.String()] = celValue(typ, v.MapIndex(key))
	}
	var pairs []string
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		pairs = append(pairs, celString(key)+": "+entries[key])
	}
	return "{" + strings.Join(pairs, ", ") + "}"
}

func celString(s string) string {
	if name, ok := strings.CutPrefix(s, "${"); ok && strings.HasSuffix(name, "}") {
		return "variables." + strings.TrimSuffix(name, "}")
	}
	return "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`).Replace(s) + "'"
}
