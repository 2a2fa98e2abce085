package nvml

import (
	"math"
	"strconv"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// After an error the recovery action is unknown. An action that the driver or the GPU does not support is not read
// again.
func (g *gpuReader) readRecovery(q *inquiry) {
	g.recovery = ""
	if g.unreported {
		return
	}
	value, err := query(q, "nvmlDeviceGetFieldValues", func() (gonvml.FieldValue, ret) {
		values := []gonvml.FieldValue{{FieldId: gonvml.FI_DEV_GET_GPU_RECOVERY_ACTION, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)}}
		r := g.handle.GetFieldValues(values)
		return values[0], r
	})
	if err != nil {
		g.unreported = unsupported(err)
		return
	}
	if r := ret(value.NvmlReturn); r != gonvml.SUCCESS {
		g.unreported = unsupported(r)
		return
	}
	if action, r := fieldInteger(value); r == gonvml.SUCCESS && action < math.MaxUint32 {
		g.recovery = recovery(action)
	}
}

func recovery(action uint64) string {
	if action < uint64(len(gpu.Recoveries)) {
		return gpu.Recoveries[action]
	}
	return strconv.FormatUint(action, 10)
}
