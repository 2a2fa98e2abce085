package source_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestMeter: a GPU's energy is of one counter, whoever answers when.
func TestMeter(t *testing.T) {
	const theirs, ours = 7_000_000, 1_000_000
	none := gputest.Plain(0)
	none.Device.EnergySource, none.Device.EnergyScope, none.Reading.Energy = gpu.EnergyNone, "", nil
	summed := metered(gpu.ScopeUnknown, ours)
	summed.Device.EnergySource = gpu.EnergyPower
	tests := map[string]struct {
		engine, library gputest.GPU
		want            gpu.Millijoules // 0 for none
		scope           gpu.EnergyScope
		source          gpu.EnergySource
		// alone is what is left if the library then fails.
		alone gpu.Millijoules
	}{
		"the board's":             {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeUnknown, ours), theirs, gpu.ScopeUnknown, gpu.EnergyCounter, theirs},
		"the board's, of modules": {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeModule, ours), theirs, gpu.ScopeModule, gpu.EnergyCounter, theirs},
		"the GPU's own":           {metered(gpu.ScopeUnknown, theirs), metered(gpu.ScopeGPU, ours), ours, gpu.ScopeGPU, gpu.EnergyCounter, 0},
		"power alone":             {none, summed, ours, gpu.ScopeUnknown, gpu.EnergyPower, 0},
		"the engine's alone":      {metered(gpu.ScopeUnknown, theirs), none, theirs, gpu.ScopeUnknown, gpu.EnergyCounter, theirs},
		"nobody's":                {none, none, 0, "", gpu.EnergyNone, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBoth(true)
			check := func(when string, want gpu.Millijoules) {
				t.Helper()
				d, r := b.one(t)
				if got := r.Energy; want == 0 && got != nil || want != 0 && (got == nil || *got != want) {
					t.Errorf("%s: energy is %v, want %d", when, got, want)
				}
				if d.EnergyScope != tt.scope || d.EnergySource != tt.source {
					t.Errorf("%s: %q of %q, want %q of %q", when, d.EnergySource, d.EnergyScope, tt.source, tt.scope)
				}
			}
			for range 3 {
				b.engine.of("dcgm", tt.engine, b.ago(300*time.Millisecond))
				b.library.of("nvml", tt.library, b.ago(0))
				check("both answer", tt.want)
				b.clock.Advance(time.Second)
			}
			b.library.err = errDown
			for range 20 {
				b.engine.of("dcgm", tt.engine, b.ago(300*time.Millisecond))
				check("the library is gone", tt.alone)
				b.clock.Advance(time.Second)
			}
			b.library.of("nvml", tt.library, b.ago(0))
			check("it is back", tt.want)
		})
	}
}

// TestLateLibrary: while the library may still say that it knows a better counter, there
// is no energy; then the engine's counts, and goes on counting.
func TestLateLibrary(t *testing.T) {
	b := newBoth(false)
	b.library.err = errDown
	for i := range 15 {
		b.engine.of("dcgm", metered(gpu.ScopeUnknown, 1000), b.ago(0))
		if _, r := b.one(t); (r.Energy != nil) != (i >= 10) {
			t.Errorf("after %d seconds energy is %v", i, r.Energy)
		}
		b.clock.Advance(time.Second)
	}
	b.engine.of("dcgm", metered(gpu.ScopeUnknown, 2000), b.ago(0))
	b.library.of("nvml", metered(gpu.ScopeGPU, 5), b.ago(0))
	if _, r := b.one(t); r.Energy == nil || *r.Energy != 2000 {
		t.Errorf("energy is %v", r.Energy)
	}
	for _, lost := range []func(){
		func() { b.engine.err = errDown },
		func() { b.engine.of("dcgm", metered(gpu.ScopeUnknown, 3000), b.ago(0)); b.engine.Readings = nil },
		func() {
			b.engine.of("dcgm", metered(gpu.ScopeUnknown, 3000), b.ago(0))
			b.engine.Readings[0].Energy = nil
		},
		func() { b.engine.Devices, b.engine.Readings = nil, nil },
	} {
		b.clock.Advance(time.Second)
		lost()
		b.library.of("nvml", metered(gpu.ScopeGPU, 6), b.ago(0))
		if d, r := b.one(t); r.Energy != nil || d.EnergyScope != gpu.ScopeUnknown {
			t.Errorf("energy is %v of %q, of another counter", *r.Energy, d.EnergyScope)
		}
	}
}

// TestBlankEngine: an engine whose answers are blank stops no counter that the library reads
// too, and takes up again when it has values. Where the library has none, the reading has
// the engine's time.
func TestBlankEngine(t *testing.T) {
	for _, scope := range []gpu.EnergyScope{gpu.ScopeUnknown, gpu.ScopeModule, gpu.ScopeGPU} {
		b := newBoth(false)
		for i := range 8 {
			b.clock.Advance(time.Second)
			theirs, ours := gpu.Millijoules(1000*i), gpu.Millijoules(1000*i+300)
			want, at := theirs, b.ago(300*time.Millisecond)
			b.engine.of("dcgm", metered(gpu.ScopeUnknown, theirs), at)
			b.library.of("nvml", metered(scope, ours), b.ago(0))
			blank := 2 <= i && i < 5
			if blank {
				b.engine.Readings[0].Energy = nil
			}
			if blank || scope == gpu.ScopeGPU {
				want, at = ours, b.ago(0)
			}
			if d, r := b.one(t); r.Energy == nil || *r.Energy != want || r.At != at || d.EnergyScope != scope {
				t.Errorf("%s, tick %d: %q, reading %+v", scope, i, d.EnergyScope, r)
			}
		}
		b.clock.Advance(time.Second)
		b.engine.of("dcgm", metered(gpu.ScopeUnknown, 0), b.ago(300*time.Millisecond))
		b.library.of("nvml", metered(scope, 0), b.ago(0))
		b.engine.Readings[0].Energy, b.library.Readings[0].Energy = nil, nil
		if _, r := b.one(t); r.Energy != nil || scope != gpu.ScopeGPU && r.At != b.ago(300*time.Millisecond) {
			t.Errorf("%s: nobody has a value: %+v", scope, r)
		}
	}
}

// TestLateReading: a library that does not read a GPU in time has no say in its counter.
func TestLateReading(t *testing.T) {
	b := newBoth(false)
	summed := metered(gpu.ScopeUnknown, 1000)
	summed.Device.EnergySource = gpu.EnergyPower
	for i := range 2 {
		b.engine.of("dcgm", metered(gpu.ScopeUnknown, 9000), b.ago(0))
		b.library.of("nvml", summed, b.ago(0))
		if i == 0 {
			b.library.Readings = nil
		}
		if _, r := b.one(t); (r.Energy != nil) != (i > 0) || i > 0 && *r.Energy != 9000 {
			t.Errorf("tick %d: %+v", i, r)
		}
		b.clock.Advance(time.Second)
	}
}

// TestLateEngine: the counter that the library served before the engine answered is served
// afterwards too.
func TestLateEngine(t *testing.T) {
	summed := metered(gpu.ScopeUnknown, 1000)
	summed.Device.EnergySource = gpu.EnergyPower
	for _, library := range []gputest.GPU{metered(gpu.ScopeGPU, 1000), summed} {
		b := newBoth(false)
		b.engine.err = errDown
		for i := range 4 {
			if i > 1 {
				b.engine.of("dcgm", metered(gpu.ScopeUnknown, 9000), b.ago(0))
			}
			b.library.of("nvml", library, b.ago(0))
			if _, r := b.one(t); *r.Energy != 1000 {
				t.Errorf("tick %d: energy is %d", i, *r.Energy)
			}
			b.clock.Advance(time.Second)
		}
	}
}

// TestModulePower: the power of a module, which only the library tells, is there beside the
// engine's counter of it.
func TestModulePower(t *testing.T) {
	b := newBoth(false)
	power := gpu.ModulePower{GPU: 30, Module: 100}
	library := metered(gpu.ScopeModule, 1000)
	library.Reading.ModulePower = power
	b.engine.of("dcgm", metered(gpu.ScopeUnknown, 1000), b.clock.Now())
	b.library.of("nvml", library, b.clock.Now())
	if d, r := b.one(t); r.ModulePower != power || d.EnergyScope != gpu.ScopeModule {
		t.Errorf("power %+v, scope %q", r.ModulePower, d.EnergyScope)
	}
}
