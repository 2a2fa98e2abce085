package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	// reaskAfter is the time after which unsupported values are requested again. A change of ECC or MIG may make these
	// values available.
	reaskAfter = 10 * time.Minute
	// seldom is the time between two readings of limits, modes and versions.
	seldom = 10 * time.Minute
)

type healthCall struct {
	symbol string
	// every is the time between two calls. If it is 0, the call is made at each reading of health.
	every time.Duration
	read  func(*gpuReader) ([]gpu.HealthValue, ret)
}

// An answer contains the values of the last call.
type answer struct {
	values []gpu.HealthValue
	// again is the boot-clock time of the next call.
	again time.Duration
}

type details struct {
	// answers has an element for each of detailCalls.
	answers []answer
	// The slice is replaced, never changed.
	values []gpu.HealthValue
}

func (g *gpuReader) readDetails() {
	q, now := &inquiry{lib: g.lib}, g.now().Boot
	values := g.call(q, detailCalls, &g.details.answers, make([]gpu.HealthValue, 0, len(g.details.values)), now)
	g.renew(q, &inforomCheck, &g.inforom, now)
	g.details.values = append(values, g.inforom.values...)
}

// call makes the calls that are due, and appends the current values of all calls.
func (g *gpuReader) call(q *inquiry, calls []healthCall, answers *[]answer, values []gpu.HealthValue, now time.Duration) []gpu.HealthValue {
	if *answers == nil {
		*answers = make([]answer, len(calls))
	}
	for i := range calls {
		a := &(*answers)[i]
		g.renew(q, &calls[i], a, now)
		values = append(values, a.values...)
	}
	return values
}

// If the GPU is lost, renew repeats the call at the next reading.
func (g *gpuReader) renew(q *inquiry, c *healthCall, a *answer, now time.Duration) {
	if now < a.again {
		return
	}
	values, err := query(q, c.symbol, func() ([]gpu.HealthValue, ret) { return c.read(g) })
	a.values = values
	switch {
	case err == nil:
		a.again = now + c.every
	case hasCode(err, gonvml.ERROR_GPU_IS_LOST):
	case unsupported(err):
		a.again = now + max(c.every, reaskAfter)
	default:
		a.again = now + c.every
	}
}

func readField(h device, field, scope uint32) (uint64, ret) {
	values := []gonvml.FieldValue{{FieldId: field, ScopeId: scope, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)}}
	if r := h.GetFieldValues(values); r != gonvml.SUCCESS {
		return 0, r
	}
	return healthInteger(values[0])
}
