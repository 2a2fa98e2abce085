package sampler

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// observation is a reading as the ledger takes it.
func observation(d gpu.Device, r gpu.Reading, who attendance, allocations gpu.Allocations) ledger.Observation {
	o := ledger.Observation{
		UUID: r.UUID, At: r.At,
		Energy: r.Energy, MaxPower: maxPower(d), Utilization: r.Utilization,
		ProcessesKnown: r.ContextsKnown, MIG: d.MIG, Places: make(map[gpu.ProcessID]string),
		Activity: who.activity, ActivityKnown: r.SamplesKnown,
		Allocations: allocationsOf(r.UUID, allocations), AllocationsKnown: allocations.Known,
	}
	for _, g := range who.present {
		o.Processes = append(o.Processes, g.Process)
		if g.GPUInstance != "" {
			o.Places[g.ID] = g.GPUInstance
		}
	}
	return o
}

// maxPower returns what the counter of a GPU can be expected to count at most. One
// that does not count the GPU alone may include a second die and a CPU: three
// times the GPU's own limit.
func maxPower(d gpu.Device) gpu.Watts {
	if d.EnergyScope == gpu.ScopeGPU {
		return d.MaxPower
	}
	return 3 * d.MaxPower
}
