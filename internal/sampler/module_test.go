package sampler_test

import (
	"testing"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Both GPUs report the counter of the module, which increases by 200 J in two seconds. Each GPU must be charged for its
// share.
func TestModules(t *testing.T) {
	tests := []struct {
		name    string
		serials [2]string
		power   [2]gpu.ModulePower
		want    [2]gpu.Millijoules
		source  gpu.EnergySource
	}{
		{"by power", [2]string{"7", "7"}, [2]gpu.ModulePower{{GPU: 30, Module: 100}, {GPU: 70, Module: 100}}, [2]gpu.Millijoules{60_000, 140_000}, gpu.EnergyDivided},
		{"a CPU uses the rest", [2]string{"7", "7"}, [2]gpu.ModulePower{{GPU: 20, Module: 100}, {GPU: 30, Module: 100}}, [2]gpu.Millijoules{40_000, 60_000}, gpu.EnergyDivided},
		{"a module with less power than its GPUs", [2]string{"7", "7"}, [2]gpu.ModulePower{{GPU: 100, Module: 100}, {GPU: 100, Module: 100}}, [2]gpu.Millijoules{100_000, 100_000}, gpu.EnergyDivided},
		{"without the power of the module", [2]string{"7", "7"}, [2]gpu.ModulePower{{GPU: 30}, {GPU: 90}}, [2]gpu.Millijoules{50_000, 150_000}, gpu.EnergyDivided},
		{"without power", [2]string{"7", "7"}, [2]gpu.ModulePower{}, [2]gpu.Millijoules{100_000, 100_000}, gpu.EnergyDivided},
		{"one GPU without power", [2]string{"7", "7"}, [2]gpu.ModulePower{{GPU: 30}}, [2]gpu.Millijoules{100_000, 100_000}, gpu.EnergyDivided},
		{"each GPU with its own CPU", [2]string{"7", "8"}, [2]gpu.ModulePower{{GPU: 60, Module: 100}, {GPU: 80, Module: 100}}, [2]gpu.Millijoules{120_000, 160_000}, gpu.EnergyDivided},
		{"each GPU alone on its board", [2]string{"7", "8"}, [2]gpu.ModulePower{}, [2]gpu.Millijoules{200_000, 200_000}, gpu.EnergyCounter},
		{"unknown boards", [2]string{"", ""}, [2]gpu.ModulePower{}, [2]gpu.Millijoules{200_000, 200_000}, gpu.EnergyCounter},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.modulePower = make(map[string]gpu.ModulePower)
			for i := range w.devices {
				w.devices[i].Serial, w.devices[i].EnergyScope = tt.serials[i], gpu.ScopeModule
				w.modulePower[w.devices[i].UUID] = tt.power[i]
			}
			for i, g := range w.ticks(w.sampler(), 3).GPUs {
				if g.Book.Energy != tt.want[i] || g.Book.Energy != g.Book.Sum() || g.EnergySource != tt.source {
					t.Errorf("GPU %d: %d mJ by %q, want %d by %q", i, g.Book.Energy, g.EnergySource, tt.want[i], tt.source)
				}
			}
		})
	}
}

// In a module with one counter, such as an MI250, the GPU that reports it must be charged for all energy of the module.
func TestModuleOfOneCounter(t *testing.T) {
	w := newWorld(t)
	for i := range w.devices {
		w.devices[i].Serial = "7"
	}
	w.devices[0].EnergyScope, w.devices[1].EnergyScope, w.devices[1].EnergySource = gpu.ScopeModule, "", gpu.EnergyNone
	if g := w.ticks(w.sampler(), 3).GPUs[0]; g.Book.Energy != 200_000 || g.EnergySource != gpu.EnergyCounter {
		t.Errorf("%d mJ by %q, want 200000 by counter", g.Book.Energy, g.EnergySource)
	}
}

// The GPUs of a module must keep their shares while the driver does not report the module's power.
func TestModulePowerLost(t *testing.T) {
	w := newWorld(t)
	for i := range w.devices {
		w.devices[i].Serial, w.devices[i].EnergyScope = "7", gpu.ScopeModule
	}
	w.modulePower = map[string]gpu.ModulePower{first: {GPU: 25, Module: 100}, second: {GPU: 50, Module: 100}}
	s := w.sampler()
	w.ticks(s, 2)
	w.modulePower = nil
	g := w.ticks(s, 2).GPUs
	if g[0].Book.Energy != 75_000 || g[1].Book.Energy != 150_000 || g[0].Book.Resets != 0 {
		t.Errorf("%d and %d mJ, want 75000 and 150000; %d resets", g[0].Book.Energy, g[1].Book.Energy, g[0].Book.Resets)
	}
}
