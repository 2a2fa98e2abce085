package sampler

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// TestNVSwitchBound checks that no more than the maximum number of different errors is counted.
func TestNVSwitchBound(t *testing.T) {
	n := make(nvSwitches)
	for code := range uint64(maxSwitchErrors + 3) {
		n.add([]gpu.KernelError{{Code: code, Severity: gpu.SeverityFatal, Sequence: code}})
	}
	n.add([]gpu.KernelError{{Code: 1, Severity: gpu.SeverityFatal, Sequence: maxSwitchErrors + 3}})
	if list := n.list(); len(list) != maxSwitchErrors || list[1].Count != 2 {
		t.Errorf("%d errors, %d of a known code", len(list), list[1].Count)
	}
}
