package nvml

import (
	"math"
	"slices"
	"strconv"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// reaskAfter is the time after which unsupported values are requested again, because they may
// become available when ECC or MIG is changed.
const reaskAfter = 10 * time.Minute

// A healthReader reads the health of one GPU.
type healthReader struct {
	// fields contains the fields that the GPU has not rejected, and the counters of links that the GPU has returned at
	// least once. The order is the order of healthFields.
	fields []fieldReader
	// refused is set for each call in healthCalls that the GPU does not support.
	refused []bool
	// constants contains the results of constantCalls, in the order of healthCalls.
	constants [][]gpu.HealthValue
	// since is the boot-clock time since which known results are not requested again, or 0 before the first reading.
	// Rejected fields, rejected calls and calls with constant results are then omitted.
	since time.Duration
	// values and counters contain the values from the last reading. The slices are replaced and
	// never modified.
	values   []gpu.HealthValue
	counters []gpu.Counter
	// traffic is the number of bytes over NVLink at the last reading, and sent is the boot-clock time of this reading.
	// Both are 0 before the first reading.
	traffic float64
	sent    time.Duration
	// rate is the NVLink rate between the last two readings, in bytes per second, or nil if it is
	// unknown.
	rate *float64
}

// A fieldReader reads one field in one scope.
type fieldReader struct {
	*healthField
	scopeID uint32
	refused bool
	// last is the last value that was read. known is set if the current reading returned a value.
	last  uint64
	known bool
	// name is the name under which the counter of a link is reported, or empty before the counter was first read.
	name string
}

// allFields returns the readers of all fields.
func allFields() (all []fieldReader) {
	for i := range healthFields {
		f := &healthFields[i]
		if f.scope != eachLink {
			all = append(all, fieldReader{healthField: f, scopeID: f.scope})
			continue
		}
		for link := range uint32(gonvml.NVLINK_MAX_LINKS) {
			all = append(all, fieldReader{healthField: f, scopeID: link})
		}
	}
	return all
}

// ask makes the next reading request all fields and make all calls again, including rejected fields, rejected calls,
// and calls with constant results.
func (x *healthReader) ask(now time.Duration) {
	x.since = now
	x.refused, x.constants = make([]bool, len(healthCalls)), make([][]gpu.HealthValue, len(healthCalls))
	known := x.fields
	x.fields = allFields()
	for i := range x.fields {
		f := &x.fields[i]
		if len(known) > 0 && known[0].healthField == f.healthField && known[0].scopeID == f.scopeID {
			f.last, f.name, known = known[0].last, known[0].name, known[1:]
		}
	}
}

// forget removes the fields that the GPU has rejected. Dropping these fields saves time, because most GPUs support
// only a sixth of the fields.
func (x *healthReader) forget() {
	refused := func(f fieldReader) bool { return f.refused && f.name == "" }
	if slices.ContainsFunc(x.fields, refused) {
		x.fields = slices.Clone(slices.DeleteFunc(x.fields, refused))
	}
}

// readHealth reads all health values. If a call fails, its values are missing.
func (g *gpuReader) readHealth() {
	x, now := &g.health, g.now().Boot
	if x.since == 0 || now-x.since > reaskAfter {
		x.ask(now)
	}
	x.values, x.counters = nil, nil
	values := g.readHealthFields()
	x.forget()
	x.measure(values, now)
	values = append(values, g.memoryUtilization()...)
	for i, c := range healthCalls {
		if x.refused[i] {
			continue
		}
		if x.constants[i] != nil {
			values = append(values, x.constants[i]...)
			continue
		}
		read, err := query(&inquiry{lib: g.lib}, c.symbol, func() ([]gpu.HealthValue, ret) { return c.read(g.handle) })
		if err == nil {
			values = append(values, read...)
			if slices.Contains(constantCalls, c.symbol) {
				x.constants[i] = read
			}
		}
		x.refused[i] = unsupported(err)
	}
	x.values = values
}

// memoryUtilization returns the utilisation of the memory.
func (g *gpuReader) memoryUtilization() []gpu.HealthValue {
	u, err := query(&inquiry{lib: g.lib}, "nvmlDeviceGetUtilizationRates", g.utilization)
	if err != nil || u.Memory > 100 {
		return nil
	}
	return single(gpu.MemoryUtilization, float64(u.Memory)/100)
}

// measure computes the NVLink rate since the last reading from the bytes in both directions.
func (x *healthReader) measure(values []gpu.HealthValue, now time.Duration) {
	var bytes float64
	directions := 0
	for _, v := range values {
		if v.Metric == gpu.NVLinkBytes {
			bytes, directions = bytes+v.Value, directions+1
		}
	}
	x.rate = nil
	if directions < 2 {
		x.sent = 0
		return
	}
	if x.sent > 0 && now > x.sent && bytes >= x.traffic {
		x.rate = new((bytes - x.traffic) / (now - x.sent).Seconds())
	}
	x.traffic, x.sent = bytes, now
}

// readHealthFields reads all fields that the GPU has not rejected, with one call.
func (g *gpuReader) readHealthFields() []gpu.HealthValue {
	var requested []*fieldReader
	answers := make([]gonvml.FieldValue, 0, len(g.health.fields))
	for i := range g.health.fields {
		f := &g.health.fields[i]
		if f.known = false; !f.refused {
			requested = append(requested, f)
			answers = append(answers, gonvml.FieldValue{FieldId: f.field, ScopeId: f.scopeID, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)})
		}
	}
	if len(answers) == 0 {
		return nil
	}
	_, err := query(&inquiry{lib: g.lib}, "nvmlDeviceGetFieldValues", func() (struct{}, ret) { return struct{}{}, g.handle.GetFieldValues(answers) })
	if err != nil {
		return nil
	}
	for i, f := range requested {
		f.set(healthInteger(answers[i]))
	}
	return g.health.collect()
}

// set records the driver's response for the field.
func (f *fieldReader) set(n uint64, r ret) {
	f.refused = unsupported(r)
	if r != gonvml.SUCCESS {
		return
	}
	f.last, f.known = n, true
	if f.isCounterOfLink() && f.name == "" {
		f.name = gpu.NewCounter(f.metric, f.labels, strconv.Itoa(int(f.scopeID))).Name
	}
}

// collect returns the values of the fields and updates the counters of links. It adds up the values of links that have
// the same labels.
func (x *healthReader) collect() (values []gpu.HealthValue) {
	for i := range x.fields {
		f := &x.fields[i]
		if f.isCounterOfLink() {
			if f.name != "" {
				x.counters = append(x.counters, gpu.Counter{Metric: f.metric, Labels: f.labels, Name: f.name, Count: f.last})
			}
			continue
		}
		v, ok := f.value()
		switch {
		case !ok:
		case f.scope == eachLink:
			values = gpu.AddHealth(values, v)
		default:
			values = append(values, v)
		}
	}
	return values
}

func (f *fieldReader) isCounterOfLink() bool {
	return f.scope == eachLink && gpu.HealthInfos[f.metric].Counter
}

// healthInteger returns the integer value of a field. It rejects a double without a time, because drivers return such
// a value for ECC fields while ECC is disabled.
func healthInteger(v gonvml.FieldValue) (uint64, ret) {
	if r := ret(v.NvmlReturn); r != gonvml.SUCCESS {
		return 0, r
	}
	if v.FieldId <= gonvml.FI_DEV_RETIRED_PENDING && gonvml.ValueType(v.ValueType) == gonvml.VALUE_TYPE_DOUBLE && v.Timestamp == 0 && v.LatencyUsec == 0 {
		return 0, gonvml.ERROR_NOT_SUPPORTED
	}
	n, r := available64(fieldInteger(v))
	if r == gonvml.SUCCESS && n == math.MaxUint32 && gonvml.ValueType(v.ValueType) == gonvml.VALUE_TYPE_UNSIGNED_INT {
		r = gonvml.ERROR_NO_DATA
	}
	return n, r
}

// value returns the value of the metric. It returns false if the value is unknown or meaningless,
// such as an unknown state of a link or the temperature 0 of a GPU without the sensor.
func (f *fieldReader) value() (v gpu.HealthValue, ok bool) {
	v = gpu.HealthValue{Metric: f.metric, Labels: f.labels, Value: float64(f.last) / f.unit}
	switch {
	case f.metric == gpu.NVLinkLinks && f.last < uint64(len(linkStates)):
		v.Labels, v.Value = linkStates[f.last], 1
	case f.metric == gpu.NVLinkLinks, f.metric == gpu.MemoryTemperature && f.last == 0:
		return v, false
	}
	return v, f.known
}
