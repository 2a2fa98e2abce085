package sampler

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

// observation is a reading as the ledger takes it.
func observation(d gpu.Device, r gpu.Reading, v view) ledger.Observation {
	who := v.processes[r.UUID]
	o := ledger.Observation{
		UUID: r.UUID, At: r.At, Took: r.Took,
		Energy: r.Energy, Part: r.Part, Counter: counter(d), MaxPower: maxPower(d), PowerLimit: d.MaxPower, Utilization: r.Gauges[gpu.Utilization],
		ProcessesKnown: r.ContextsKnown, MIG: d.MIG, Places: make(map[gpu.ProcessID]string),
		Activity: who.activity, Sampled: r.Sampled, ActivityKnown: r.SamplesKnown,
		Instances: instances(r), InstancesKnown: r.InstancesKnown,
		Processes:   make([]*gpu.Process, 0, len(who.present)),
		Allocations: v.allocations[r.UUID], AllocationsKnown: v.allocationsKnown,
	}
	for _, g := range who.present {
		o.Processes = append(o.Processes, g.Process)
		if g.GPUInstance != "" {
			o.Places[g.ID] = g.GPUInstance
		}
	}
	return o
}

// counter names the counter that the energy of a GPU is read from: a sum of power, the
// GPU's own, or the board's, of which a driver may say or not that it is the module's.
func counter(d gpu.Device) string {
	switch {
	case d.EnergySource != gpu.EnergyCounter:
		return string(d.EnergySource)
	case d.EnergyScope == gpu.ScopeGPU:
		return "gpu"
	}
	return "board"
}

// instances returns how long each MIG instance was busy.
func instances(r gpu.Reading) map[string]time.Duration {
	busy := make(map[string]time.Duration, len(r.Instances))
	for _, i := range r.Instances {
		busy[i.Instance] += time.Duration(i.SM * float64(i.Len()))
	}
	return busy
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
