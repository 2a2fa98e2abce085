package nvml

import (
	"math"
	"slices"
	"strconv"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type healthReader struct {
	// fields contains the fields that the GPU has not rejected, in the order of healthFields. It also contains rejected
	// link counters if the GPU returned them earlier.
	fields []fieldReader
	// request is the argument of the last call. Each call reuses its memory.
	request []gonvml.FieldValue
	// since is the boot-clock time of the last request for all fields, including rejected fields; 0 before the first
	// reading.
	since time.Duration
	// answers has an element for each of healthCalls.
	answers []answer
	// values and counters are from the last reading. The slices are replaced and never modified.
	values   []gpu.HealthValue
	counters []gpu.Counter
	// traffic is the number of bytes that NVLink had transferred at the last reading. sent is the boot-clock time of
	// that reading. Both are 0 before the first reading.
	traffic float64
	sent    time.Duration
	// rate is the NVLink rate between the last two readings, in bytes per second. It is nil if the rate is unknown.
	rate *float64
}

type fieldReader struct {
	*healthField
	scopeID uint32
	refused bool
	// last is the last value that was read. known is set if the current reading returned a value.
	last  uint64
	known bool
	// name is the reported name of a link's counter, or empty before the counter was first read.
	name string
}

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

// ask makes the next reading request all fields again, including rejected fields.
func (x *healthReader) ask(now time.Duration) {
	x.since = now
	known := x.fields
	x.fields = allFields()
	for i := range x.fields {
		f := &x.fields[i]
		if len(known) > 0 && known[0].healthField == f.healthField && known[0].scopeID == f.scopeID {
			f.last, f.name, known = known[0].last, known[0].name, known[1:]
		}
	}
}

// forget removes rejected fields. This saves time, because most GPUs support only a sixth of the fields.
func (x *healthReader) forget() {
	refused := func(f fieldReader) bool { return f.refused && f.name == "" }
	if slices.ContainsFunc(x.fields, refused) {
		x.fields = slices.Clone(slices.DeleteFunc(x.fields, refused))
	}
}

// If a call fails, its values are missing until the next call.
func (g *gpuReader) readHealth() {
	x, now := &g.health, g.now().Boot
	if x.since == 0 || now-x.since > reaskAfter {
		x.ask(now)
	}
	x.counters = nil
	q := &inquiry{lib: g.lib}
	values := g.readHealthFields(q)
	x.forget()
	x.measure(values, now)
	x.values = g.call(q, healthCalls, &x.answers, values, now)
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

func (g *gpuReader) readHealthFields(q *inquiry) []gpu.HealthValue {
	x := &g.health
	x.request = x.request[:0]
	for i := range x.fields {
		f := &x.fields[i]
		if f.known = false; !f.refused {
			x.request = append(x.request, gonvml.FieldValue{FieldId: f.field, ScopeId: f.scopeID, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)})
		}
	}
	if len(x.request) == 0 {
		return nil
	}
	_, err := query(q, "nvmlDeviceGetFieldValues", func() (struct{}, ret) { return struct{}{}, g.handle.GetFieldValues(x.request) })
	if err != nil {
		return nil
	}
	responses := x.request
	for i := range x.fields {
		if f := &x.fields[i]; !f.refused {
			f.set(healthInteger(responses[0]))
			responses = responses[1:]
		}
	}
	return x.collect()
}

func (f *fieldReader) set(n uint64, r ret) {
	if r != gonvml.SUCCESS {
		f.refused = unsupported(r)
		return
	}
	f.last, f.known = n, true
	if f.isCounterOfLink() && f.name == "" {
		f.name = gpu.NewCounter(f.metric, f.labels, strconv.Itoa(int(f.scopeID))).Name
	}
}

// collect adds up the values of links that have the same labels. It does not add up counters: it stores the counter of
// each link in x.counters.
func (x *healthReader) collect() []gpu.HealthValue {
	values := make([]gpu.HealthValue, 0, len(x.values)) // usually as many as at the last reading
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

// healthInteger returns the integer value of a field. It rejects a double without a time. Drivers return such a value
// for ECC fields while ECC is disabled.
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

// value returns false if the value is unknown or meaningless. For example, a GPU without a sensor reports a temperature
// of 0.
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
