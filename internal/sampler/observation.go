package sampler

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// observation is a reading as the ledger takes it.
func observation(d gpu.Device, r gpu.Reading, who attendance, allocations gpu.Allocations) ledger.Observation {
	return ledger.Observation{
		UUID: r.UUID, At: r.At,
		Energy: r.Energy, MaxPower: maxPower(d), Utilization: r.Utilization,
		Processes: who.present, ProcessesKnown: r.ContextsKnown,
		MIG: d.MIG, Places: who.places,
		Activity: who.activity, ActivityKnown: r.SamplesKnown,
		Allocations: allocationsOf(r.UUID, allocations), AllocationsKnown: allocations.Known,
	}
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
