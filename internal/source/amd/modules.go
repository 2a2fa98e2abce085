package amd

import (
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// models contains model names by PCI device id, for GPUs without a product name, for example in virtual machines.
var models = map[string]string{
	"0x738c": "AMD Instinct MI100",
	"0x7408": "AMD Instinct MI250X",
	"0x740c": "AMD Instinct MI250X / MI250",
	"0x740f": "AMD Instinct MI210",
	"0x74a0": "AMD Instinct MI300A",
	"0x74a1": "AMD Instinct MI300X",
	"0x74a5": "AMD Instinct MI325X",
	"0x74b5": "AMD Instinct MI300X VF",
}

// shared contains the PCI device ids of modules that report power and energy for more than one GPU.
// An MI250 has two GPUs; its firmware reports the module's values on the first GPU and 0 on the
// other (Linux, aldebaran_ppt.c). The power and energy of an MI300A include its processor cores.
var shared = []string{"0x7408", "0x740c", "0x74a0"}

func scopeOf(device string) gpu.EnergyScope {
	if slices.Contains(shared, device) {
		return gpu.ScopeModule
	}
	return gpu.ScopeGPU
}

// divideModules detects modules with an unknown device id. If one GPU of a board reports no energy, the energy of the
// other GPU covers the whole module.
func divideModules(report *gpu.Report) {
	for i := range report.Devices {
		d := &report.Devices[i]
		silent := slices.ContainsFunc(report.Devices, func(o gpu.Device) bool {
			return o.UUID != d.UUID && o.Serial == d.Serial && o.EnergySource == gpu.EnergyNone &&
				slices.ContainsFunc(report.Readings, func(r gpu.Reading) bool { return r.UUID == o.UUID })
		})
		if d.EnergySource == gpu.EnergyCounter && gpu.Identity(d.Serial) != "" && silent {
			d.EnergyScope = gpu.ScopeModule
		}
	}
}
