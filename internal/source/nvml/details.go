package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A detail holds the values that a call returned, until the next call.
type detail struct {
	values []gpu.HealthValue
	// again is the boot-clock time of the next call.
	again time.Duration
}

// details contains the health details of one GPU.
type details struct {
	// read has an element for each of detailCalls.
	read []detail
	// values are all present values. The slice is replaced, never changed.
	values []gpu.HealthValue
}

// readDetails makes the calls that are due. If a call fails, its values are missing until the next call.
func (g *gpuReader) readDetails() {
	if g.details.read == nil {
		g.details.read = make([]detail, len(detailCalls))
	}
	q, now := &inquiry{lib: g.lib}, g.now().Boot
	var values []gpu.HealthValue
	for i := range detailCalls {
		d := &g.details.read[i]
		g.renew(q, d, &detailCalls[i], now)
		values = append(values, d.values...)
	}
	g.renew(q, &g.inforom, &inforomCheck, now)
	g.details.values = append(values, g.inforom.values...)
}

// renew makes a call if it is due. A call for a lost GPU is due again at the next reading.
func (g *gpuReader) renew(q *inquiry, d *detail, c *detailCall, now time.Duration) {
	if now < d.again {
		return
	}
	values, err := query(q, c.symbol, func() ([]gpu.HealthValue, ret) { return c.read(g.lib, g.handle) })
	d.values = values
	switch {
	case hasCode(err, gonvml.ERROR_GPU_IS_LOST):
	case unsupported(err):
		d.again = now + max(c.every, reaskAfter)
	default:
		d.again = now + c.every
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
