package sampler

import "github.com/gpuledger/gpuledger/internal/gpu"

// modules divides the energy of modules over their GPUs, because the driver reports the whole energy of a module for
// each GPU.
type modules struct {
	// shares contains, by UUID, each GPU's share of its module's energy at the last reading, from 0 to 1.
	shares map[string]float64
}

// divide sets ModuleShare in each reading that contains the counter of a module, and marks the GPU's energy source as
// divided.
//
// If the driver reports the power of the GPU and of the module, the share is the GPU's power divided by the module's
// power. The remaining energy belongs to the CPU. Otherwise the GPUs of the board share the energy in proportion to
// their power, or equally if the power is unknown. If only one GPU of the board reports this counter, it is charged for
// all energy.
func (m *modules) divide(r *gpuList, readings []gpu.Reading) {
	boards := make(map[string][]*gpu.Reading) // readings by the serial number of their board
	for i := range readings {
		if d := r.device(readings[i].UUID); d.EnergySource == gpu.EnergyCounter && d.EnergyScope == gpu.ScopeModule {
			key := d.Serial
			if gpu.Identity(key) == "" {
				key = d.UUID // without a serial number, the other GPUs of the board are unknown
			}
			boards[key] = append(boards[key], &readings[i])
		}
	}
	for serial, members := range boards {
		m.divideBoard(r, members, r.countModule(serial))
	}
}

// all is the number of GPUs of the board, including GPUs without a current reading.
func (m *modules) divideBoard(r *gpuList, members []*gpu.Reading, all int) {
	own, module, complete := gpu.Watts(0), gpu.Watts(0), len(members) >= all
	for _, reading := range members {
		p := reading.ModulePower
		own, module = own+p.GPU, max(module, p.Module)
		complete = complete && p.GPU > 0
	}
	for _, reading := range members {
		share, before := 0.0, m.shares[reading.UUID]
		switch p := reading.ModulePower; {
		case module > 0 && p.GPU > 0:
			share = float64(p.GPU / max(module, own))
		case complete && all > 1:
			share = float64(p.GPU / own)
		case before > 0: // the power is temporarily missing
			share = before
		case all > 1:
			share = 1 / float64(all)
		default:
			continue
		}
		m.shares[reading.UUID], reading.ModuleShare = share, share
		r.edit(reading.UUID, func(e *entry) { e.EnergySource = gpu.EnergyDivided })
	}
}

// countModule counts the present GPUs of a board that report the energy of their module. On an MI250, only the first
// GPU reports this energy.
func (r *gpuList) countModule(serial string) int {
	n := 0
	for _, e := range r.entries {
		if e.Present && e.Serial == serial && e.EnergyScope == gpu.ScopeModule {
			n++
		}
	}
	return n
}
