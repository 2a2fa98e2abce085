package table

import (
	"cmp"
	"time"
)

// Models contains the models of the GPUs of a cluster on a day. After a driver upgrade, a GPU may have another model. A
// charge has the model that was filed in the hour of the charge, so that a later name does not change an earlier bill.
// If that hour has no model of the GPU, as in a correction of an hour without samples, the charge has the model of the
// GPU on that day. If there are several models on that day, it has the model that is last in alphabetical order.
type Models struct {
	hours map[gpuHour]string
	days  map[string]string // by UUID
}

type gpuHour struct {
	hour       int64 // in milliseconds since the Unix epoch
	node, uuid string
}

// NewModels returns the models in rows of gpu_hours.
func NewModels(rows [][]any) *Models {
	m := new(Models)
	for _, row := range rows {
		text := func(column string) string { return GPUHours.value(row, column).(string) }
		m.Add(GPUHours.value(row, "hour").(time.Time).UnixMilli(), text("node"), text("uuid"), text("model"))
	}
	return m
}

// Add adds a row of gpu_hours. The hour is in milliseconds since the Unix epoch.
func (m *Models) Add(hour int64, node, uuid, model string) {
	if m.hours == nil {
		m.hours, m.days = make(map[gpuHour]string), make(map[string]string)
	}
	m.hours[gpuHour{hour, node, uuid}] = model
	m.days[uuid] = max(m.days[uuid], model)
}

// Of returns the model of a GPU in an hour. It returns an empty string if the model is unknown.
func (m *Models) Of(hour int64, node, uuid string) string {
	return cmp.Or(m.hours[gpuHour{hour, node, uuid}], m.days[uuid])
}
