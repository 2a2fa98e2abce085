package dcgm

import (
	"encoding/binary"
	"math"
	"strings"
	"time"

	godcgm "github.com/NVIDIA/go-dcgm/pkg/dcgm"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// entity is a GPU, a MIG instance, or the system.
type entity = godcgm.GroupEntityPair

type field = godcgm.Short

// Blanks represent missing values, although their status is 0 (dcgm_structs.h, DCGM_INT64_BLANK and similar constants).
// Greater values also represent missing values, and encode the reason.
const (
	blankInteger = 0x7ffffffffffffff0
	blankNumber  = 140737488355328.0
)

type value struct {
	status int
	kind   uint
	at     int64 // wall-clock time at which the engine read the value, in µs
	bits   uint64
	text   string
}

func newValue(v *godcgm.FieldValue_v2) value {
	out := value{status: v.Status, kind: v.FieldType, at: v.TS, bits: binary.NativeEndian.Uint64(v.Value[:])}
	if v.StringValue != nil {
		out.text = *v.StringValue
	}
	return out
}

func (v value) integer() (int64, bool) {
	n := int64(v.bits)
	return n, v.status == 0 && v.kind == godcgm.DCGM_FT_INT64 && n < blankInteger
}

func (v value) count() (int64, bool) {
	n, ok := v.integer()
	return n, ok && n >= 0
}

func (v value) number() (float64, bool) {
	if v.kind == godcgm.DCGM_FT_INT64 || v.kind == godcgm.DCGM_FT_TIMESTAMP {
		n := int64(v.bits)
		return float64(n), v.status == 0 && n < blankInteger
	}
	n := math.Float64frombits(v.bits)
	return n, v.status == 0 && v.kind == godcgm.DCGM_FT_DOUBLE && math.Abs(n) < blankNumber
}

func (v value) word() (string, bool) {
	blank := strings.HasPrefix(v.text, "<<<") && strings.Contains(v.text, ">>>")
	return v.text, v.status == 0 && v.kind == godcgm.DCGM_FT_STRING && !blank
}

// key identifies a value in a response. Positions are not used, because they may change.
type key struct {
	entity
	field
}

type values map[key]value

// moments contains the values whose time is in the future, with the time at which each value was first seen. The engine
// read a value at about the time at which the value was first seen. After the wall clock was set back, the times of
// older values are in the future. The engine sorts values by time, so it returns such an old value as the newest value
// until the clock reaches the value's time.
type moments map[key]glimpse

type glimpse struct {
	us    int64 // wall-clock time according to the engine, in µs
	first gpu.Instant
}

func (m moments) readAt(k key, v value, now gpu.Instant) gpu.Instant {
	if !time.UnixMicro(v.at).After(now.Wall) {
		delete(m, k)
		age := now.Wall.Sub(time.UnixMicro(v.at))
		return gpu.Instant{Wall: now.Wall.Add(-age), Boot: now.Boot - age}
	}
	if m[k].us != v.at {
		m[k] = glimpse{v.at, now}
	}
	return m[k].first
}
