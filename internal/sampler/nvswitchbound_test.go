package sampler

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// When the number of different errors reaches the limit, another error with a known code must still count.
func TestNVSwitchBound(t *testing.T) {
	n := make(nvSwitches)
	for code := range uint64(maxSwitchErrors + 3) {
		n.add([]gpu.KernelError{{Code: code, Severity: gpu.SeverityFatal, Sequence: code}})
	}
	n.add([]gpu.KernelError{{Code: 1, Severity: gpu.SeverityFatal, Sequence: maxSwitchErrors + 3}})
	if list := n.list(); len(list) != maxSwitchErrors || list[1].Count != 2 {
		t.Errorf("%d different errors, %d errors with a known code; want 1000 and 2", len(list), list[1].Count)
	}
}
