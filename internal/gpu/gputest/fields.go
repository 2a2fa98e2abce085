package gputest

import (
	"reflect"
	"strings"
	"time"
)

// Without calls visit once for each field of the value that full returns. The argument v is a copy of the value in
// which this field is zero. The argument path names the field, for example Devices.Platform.Slot.
func Without[T any](full func() *T, visit func(path string, v *T)) {
	for k := 0; ; k++ {
		v, i, path := full(), 0, ""
		eachField(reflect.ValueOf(v).Elem(), "", func(at string, field reflect.Value) {
			if i == k {
				path = strings.TrimPrefix(at, ".")
				field.SetZero()
			}
			i++
		})
		if k >= i {
			return
		}
		visit(path, v)
	}
}

func eachField(v reflect.Value, path string, visit func(path string, field reflect.Value)) {
	if _, ok := reflect.TypeAssert[time.Time](v); ok {
		visit(path, v)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			eachField(v.Field(i), path+"."+v.Type().Field(i).Name, visit)
		}
	case reflect.Array, reflect.Slice:
		for i := range v.Len() {
			eachField(v.Index(i), path, visit)
		}
	case reflect.Pointer:
		if !v.IsNil() {
			eachField(v.Elem(), path, visit)
		}
	default:
		visit(path, v)
	}
}
