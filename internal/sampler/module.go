package sampler

import "github.com/gpuledger/gpuledger/internal/gpu"

// modules divides the counters of modules, which each GPU of a board shows whole.
type modules struct {
	// parts is which part of its module's energy a GPU had last.
	parts map[string]float64 // by UUID
}

// divide gives each reading of a module's counter its GPU's part, and marks the GPU.
// Where the driver tells the power of the GPU and of its module, that is their ratio:
// what is left is a CPU's. Else the GPUs of a board share its energy by their own power,
// or equally. A GPU that is the only one of its board keeps the whole, if there is no
// such power.
func (m *modules) divide(r *roster, readings []gpu.Reading) {
	boards := make(map[string][]*gpu.Reading) // by serial
	for i := range readings {
		if d := r.device(readings[i].UUID); d.EnergySource == gpu.EnergyCounter && d.EnergyScope == gpu.ScopeModule {
			key := d.Serial
			if gpu.Identity(key) == "" {
				key = d.UUID // whose others are not known
			}
			boards[key] = append(boards[key], &readings[i])
		}
	}
	for serial, members := range boards {
		m.divideBoard(r, members, r.countModule(serial))
	}
}

// divideBoard divides one board's energy. Of its GPUs some may have no reading now.
func (m *modules) divideBoard(r *roster, members []*gpu.Reading, all int) {
	own, module, complete := gpu.Watts(0), gpu.Watts(0), len(members) >= all
	for _, reading := range members {
		p := reading.ModulePower
		own, module = own+p.GPU, max(module, p.Module)
		complete = complete && p.GPU > 0
	}
	for _, reading := range members {
		part, before := 0.0, m.parts[reading.UUID]
		switch p := reading.ModulePower; {
		case module > 0 && p.GPU > 0:
			part = float64(p.GPU / max(module, own))
		case complete && all > 1:
			part = float64(p.GPU / own)
		case before > 0: // until there is power again
			part = before
		case all > 1:
			part = 1 / float64(all)
		default:
			continue
		}
		m.parts[reading.UUID], reading.Part = part, part
		r.edit(reading.UUID, func(e *entry) { e.EnergySource = gpu.EnergyDivided })
	}
}

// countModule counts the GPUs of a board that are there.
func (r *roster) countModule(serial string) int {
	n := 0
	for _, e := range r.entries {
		if e.Present && e.Serial == serial {
			n++
		}
	}
	return n
}
