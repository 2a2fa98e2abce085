package sampler

import (
	"cmp"
	"maps"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// nvSwitches counts the SXID errors in the kernel's log. It also counts them while no driver responds.
type nvSwitches map[switchError]gpu.NVSwitchErrors

type switchError struct {
	address  string
	code     uint64
	severity gpu.Severity
}

// maxSwitchErrors limits the combinations of address, code and severity. No real machine has this many.
const maxSwitchErrors = 1000

// add counts the errors of NVSwitches and returns the errors of GPUs. It skips errors whose log records were counted
// before.
func (n nvSwitches) add(errors []gpu.KernelError) (ofGPUs []gpu.KernelError) {
	for _, e := range errors {
		if e.Severity == "" {
			ofGPUs = append(ofGPUs, e)
			continue
		}
		key := switchError{e.Address, e.Code, e.Severity}
		c, known := n[key]
		if !known {
			c = gpu.NVSwitchErrors{PCIBusID: e.Address, Code: e.Code, Severity: e.Severity, Since: e.At}
		}
		if e.Sequence < c.Records || !known && len(n) == maxSwitchErrors {
			continue
		}
		c.Count++
		c.Records = e.Sequence + 1
		n[key] = c
	}
	return ofGPUs
}

func (n nvSwitches) restore(saved []gpu.NVSwitchErrors) {
	for _, c := range saved {
		n[switchError{c.PCIBusID, c.Code, c.Severity}] = c
	}
}

func (n nvSwitches) list() []gpu.NVSwitchErrors {
	return slices.SortedFunc(maps.Values(n), func(a, b gpu.NVSwitchErrors) int {
		return cmp.Or(cmp.Compare(a.PCIBusID, b.PCIBusID), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Severity, b.Severity))
	})
}
