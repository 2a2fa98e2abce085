package dcgm

import (
	"maps"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"
)

func (e *engine) latest(of []entity, fields []field) (values, error) {
	return e.ask("dcgmEntitiesGetLatestValues", of, fields, 0)
}

// readLive makes the engine read values from the driver. The engine rejects a whole request if one of the values does
// not exist. In this case readLive reads each entity and, if necessary, each field separately. An error means that the
// engine is lost or does not support the request.
func (e *engine) readLive(of []entity, fields ...field) (values, error) {
	const liveData = 1 // DCGM_FV_FLAG_LIVE_DATA
	vs, err := e.ask("dcgmEntitiesGetLatestValues, live", of, fields, liveData)
	if err == nil || gone(err) || code(err) == codeNoFunction {
		return vs, err
	}
	if len(of) == 1 && len(fields) == 1 {
		return values{key{of[0], fields[0]}: {status: code(err)}}, nil
	}
	merged := make(values)
	add := func(of []entity, fields ...field) error {
		some, err := e.readLive(of, fields...)
		maps.Copy(merged, some)
		return err
	}
	if len(of) > 1 {
		for i := range of {
			if err := add(of[i:i+1], fields...); err != nil {
				return nil, err
			}
		}
		return merged, nil
	}
	for _, f := range fields {
		if err := add(of, f); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

// maxFields is the maximum number of fields that the library accepts in a request.
const maxFields = 128

func (e *engine) ask(name string, of []entity, fields []field, flags uint) (values, error) {
	out := make(values, len(of)*len(fields))
	for len(fields) > 0 && len(of) > 0 {
		some := fields[:min(len(fields), maxFields)]
		fields = fields[len(some):]
		err := e.do(name, func() error {
			vs, err := godcgm.EntitiesGetLatestValues(of, some, flags)
			for i := range vs {
				v := &vs[i]
				out[key{entity{EntityGroupId: v.EntityGroupId, EntityId: v.EntityID}, v.FieldID}] = newValue(v)
			}
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
