package sampler

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/ledger"
)

func observation(d gpu.Device, r gpu.Reading, v view) ledger.Observation {
	who := v.processes[r.UUID]
	o := ledger.Observation{
		UUID: r.UUID, Model: d.Model, At: r.At, Took: r.Took,
		Energy: r.Energy, PowerSum: r.PowerSum, ModuleShare: r.ModuleShare, Counter: counter(d), MaxPower: maxPower(d), PowerLimit: d.MaxPower, Utilization: r.Gauges[gpu.Utilization], Throttled: r.Throttled,
		Profiles:   profiles(r),
		QuietPower: r.QuietPower, QuietSampled: r.QuietSampled,
		ProcessesKnown: r.ContextsKnown, Partitions: d.Partitions, Places: make(map[gpu.ProcessID]string),
		Activity: who.activity, Sampled: r.Sampled, ActivityKnown: r.SamplesKnown, ActivityWeighted: r.WeightedSamples,
		Instances: instances(r), InstancesKnown: r.InstancesKnown,
		Processes:   make([]*gpu.Process, 0, len(who.present)),
		Allocations: revived(holding(v.allocations[r.UUID]), who.present), AllocationsKnown: v.allocationsKnown, Alive: v.alive,
	}
	for _, g := range who.present {
		o.Processes = append(o.Processes, g.Process)
		if g.GPUInstance != "" {
			o.Places[g.ID] = g.GPUInstance
		}
	}
	return o
}

// holding omits reservations.
func holding(list []gpu.Allocation) []gpu.Allocation {
	isReserved := func(a gpu.Allocation) bool { return a.Reserved }
	if !slices.ContainsFunc(list, isReserved) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), isReserved)
}

// revived marks an allocation as live if its pod had a process on the GPU at the time of the reading. If another GPU
// hangs, the list of allocations may be seconds newer than the reading, and the pod may have ended in these seconds.
func revived(list []gpu.Allocation, present []gpuProcess) []gpu.Allocation {
	ended := func(a gpu.Allocation) bool {
		return !a.Live && a.Owner.UID != "" && slices.ContainsFunc(present, func(g gpuProcess) bool { return g.uses(a) })
	}
	if !slices.ContainsFunc(list, ended) {
		return list
	}
	list = slices.Clone(list)
	for i := range list {
		list[i].Live = list[i].Live || ended(list[i])
	}
	return list
}

// counter returns the name of the counter from which a GPU's energy is read: an integral of power, the counter of the
// GPU, or the counter of the board. The name of the board's counter does not depend on whether its scope is known.
func counter(d gpu.Device) string {
	switch {
	case d.EnergySource != gpu.EnergyCounter:
		return string(d.EnergySource)
	case d.EnergyScope == gpu.ScopeGPU:
		return "gpu"
	}
	return "board"
}

func instances(r gpu.Reading) map[string]time.Duration {
	busy := make(map[string]time.Duration, len(r.Instances))
	for _, i := range r.Instances {
		busy[i.Instance] += time.Duration(i.SM * float64(i.Len()))
	}
	return busy
}

// profiles omits a profile unless it contains a value for the tensor cores and a value for the memory.
func profiles(r gpu.Reading) (all []ledger.Profile) {
	add := func(instance string, p *gpu.Profile) {
		if p == nil || p.Last[gpu.TensorActive] == nil || p.Last[gpu.DRAMActive] == nil {
			return
		}
		length := float64(p.Span.Len())
		all = append(all, ledger.Profile{
			GPUInstance: instance, Span: p.Span,
			Tensor: time.Duration(*p.Last[gpu.TensorActive] * length), DRAM: time.Duration(*p.Last[gpu.DRAMActive] * length),
		})
	}
	add("", r.Profile)
	for _, i := range r.InstanceProfiles {
		add(i.Instance, i.Profile)
	}
	return all
}

// maxPower returns the maximum power of the hardware that a GPU's counter covers. If the counter covers more than the
// GPU, it may include a second die and a CPU, so maxPower returns three times the GPU's power limit.
func maxPower(d gpu.Device) gpu.Watts {
	if d.EnergyScope == gpu.ScopeGPU {
		return d.MaxPower
	}
	return 3 * d.MaxPower
}
