package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

const (
	// reaskAfter is the time after which unsupported values are requested again, because they may
	// become available when ECC or MIG is changed.
	reaskAfter = 10 * time.Minute
	// seldom is the time between two readings of limits, modes and versions.
	seldom = 10 * time.Minute
)

// A healthCall reads health values of a GPU.
type healthCall struct {
	symbol string
	// every is the time between two calls, or 0 for a call in each reading of health.
	every time.Duration
	read  func(*gpuReader) ([]gpu.HealthValue, ret)
}

// An answer contains the values that a call returned, until the next call.
type answer struct {
	values []gpu.HealthValue
	// again is the boot-clock time of the next call.
	again time.Duration
}

// details contains the health details of one GPU.
type details struct {
	// answers has an element for each of detailCalls.
	answers []answer
	// values are all present values. The slice is replaced, never changed.
	values []gpu.HealthValue
}

// readDetails reads all details. If a call fails, its values are missing until the next call.
func (g *gpuReader) readDetails() {
	q, now := &inquiry{lib: g.lib}, g.now().Boot
	values := g.call(q, detailCalls, &g.details.answers, make([]gpu.HealthValue, 0, len(g.details.values)), now)
	g.renew(q, &inforomCheck, &g.inforom, now)
	g.details.values = append(values, g.inforom.values...)
}

// call makes the calls that are due, and appends the current values of all calls. It creates the answers when it is
// called for the first time.
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

// renew makes a call if it is due. A call for a lost GPU is due again at the next reading.
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

// readField reads a field in one scope.
func readField(h device, field, scope uint32) (uint64, ret) {
	values := []gonvml.FieldValue{{FieldId: field, ScopeId: scope, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)}}
	if r := h.GetFieldValues(values); r != gonvml.SUCCESS {
		return 0, r
	}
	return healthInteger(values[0])
}
