package gpu

import (
	"reflect"
	"time"
)

// Full returns a value, such as a snapshot, in which every field has content. Each list contains one element, and each
// boolean equals conditions.
func Full[T any](conditions bool) *T {
	full := new(T)
	fill(reflect.ValueOf(full).Elem(), conditions)
	return full
}

func fill(v reflect.Value, conditions bool) {
	if at, ok := reflect.TypeAssert[*time.Time](v.Addr()); ok {
		*at = time.Unix(1, 0)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, field := range v.Fields() {
			fill(field, conditions)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(v.Index(i), conditions)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), conditions)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), conditions)
	case reflect.Map:
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, conditions)
		fill(value, conditions)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(key, value)
	case reflect.Bool:
		v.SetBool(conditions)
	case reflect.String:
		v.SetString("x")
	case reflect.Float64:
		v.SetFloat(1)
	case reflect.Func: // the function Intervals may stay nil, because metrics do not use it
	default:
		if v.CanUint() {
			v.SetUint(1)
		} else {
			v.SetInt(1)
		}
	}
}
