package nvml_test

import (
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

func readFields(t *testing.T, fields string) gpu.Report {
	t.Helper()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Bare(0)}}
	d := newDriver(t, n)
	d.fields[n.GPUs[0].Device.UUID] = fields
	d.write()
	return gputest.Read(t, d.open(gputest.NewClock().Now))
}

func TestEnergySource(t *testing.T) {
	tests := []struct {
		name   string
		fields string
		source gpu.EnergySource
		scope  gpu.EnergyScope
		energy *gpu.Millijoules
	}{
		{"the field with the GPU's scope", "energy=1\tenergy_gpu=2\tenergy_module=3\tpower=4", gpu.EnergyCounter, gpu.ScopeGPU, new(gpu.Millijoules(2))},
		{"a module that reports its scope", "energy=1\tenergy_module=3\tpower=4", gpu.EnergyCounter, gpu.ScopeModule, new(gpu.Millijoules(1))},
		{"a counter of unknown scope", "energy=1\tpower=4", gpu.EnergyCounter, gpu.ScopeUnknown, new(gpu.Millijoules(1))},
		{"power alone", "power=4", gpu.EnergyPower, gpu.ScopeUnknown, new(gpu.Millijoules(0))},
		{"the field with the module's scope is not used for the GPU", "energy_module=3", gpu.EnergyNone, "", nil},
		{"an impossible counter value", "energy=18446744073709551615\ttemperature=30", gpu.EnergyNone, "", nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			report := readFields(t, tt.fields)
			got, r := report.Devices[0], report.Readings[0]
			if got.EnergySource != tt.source || got.EnergyScope != tt.scope {
				t.Errorf("source %q scope %q, want %q %q", got.EnergySource, got.EnergyScope, tt.source, tt.scope)
			}
			if (r.Energy == nil) != (tt.energy == nil) || r.Energy != nil && *r.Energy != *tt.energy {
				t.Errorf("energy is %v, want %v", r.Energy, tt.energy)
			}
		})
	}
}

// A counter that works at the second attempt must be used. After three failed attempts, the next best counter must be
// used.
func TestEnergyFailsAtFirst(t *testing.T) {
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
	s := d.open(gputest.NewClock().Now)
	d.fault(anyGPU, "nvmlDeviceGetTotalEnergyConsumption", "fail:999")
	report := gputest.Read(t, s)
	if r := report.Readings[0]; r.Energy != nil || report.Devices[0].EnergySource != gpu.EnergyNone {
		t.Errorf("energy is %d mJ from %q while the counter fails", *r.Energy, report.Devices[0].EnergySource)
	}
	d.healed()
	gputest.Check(t, gputest.Read(t, s), d.node)

	broken := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
	broken.fault(anyGPU, "nvmlDeviceGetTotalEnergyConsumption", "fail:999")
	s = broken.open(gputest.NewClock().Now)
	for range 2 {
		gputest.Read(t, s)
	}
	if got := gputest.Read(t, s).Devices[0].EnergySource; got != gpu.EnergyPower {
		t.Errorf("the source is %q after three failures", got)
	}
}

// If a counter fails at first and then works, it must replace the integral of power within ten readings. The first
// reading with the counter must also contain the integral.
func TestEnergyFailsForLong(t *testing.T) {
	clock := gputest.NewClock()
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
	d.node.GPUs[0].Reading.Gauges[gpu.Power] = new(250.0)
	d.write()
	s := d.open(clock.Now)
	d.fault(anyGPU, "nvmlDeviceGetTotalEnergyConsumption", "fail:999")
	read := func() (gpu.EnergySource, gpu.Reading) {
		clock.Advance(time.Second)
		report := gputest.Read(t, s)
		return report.Devices[0].EnergySource, report.Readings[0]
	}
	for n := range 25 {
		if source, r := read(); n >= 2 && (source != gpu.EnergyPower || *r.Energy != gpu.Millijoules(n)*250_000) {
			t.Fatalf("reading %d while the counter fails: %d mJ from %q", n, *r.Energy, source)
		}
	}
	d.healed()
	for n := 25; n < 36; n++ {
		source, r := read()
		if *r.PowerSum != gpu.Millijoules(n)*250_000 {
			t.Fatalf("reading %d: the integral is %d mJ", n, *r.PowerSum)
		}
		if source == gpu.EnergyCounter {
			if want := *d.node.GPUs[0].Reading.Energy; *r.Energy != want {
				t.Errorf("the counter has %d mJ, want %d", *r.Energy, want)
			}
			return
		}
	}
	t.Error("the counter is not read although it works again")
}

// TestIntegral checks that the integral of power is exact to the millijoule.
func TestIntegral(t *testing.T) {
	clock := gputest.NewClock()
	g := gputest.Plain(0)
	g.Device.EnergySource, g.Reading.Energy = gpu.EnergyPower, nil
	g.Reading.Gauges[gpu.Temperature] = new(30.0) // a reading needs at least one value, even without power
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{g}})
	s := d.open(clock.Now)
	steps := []struct {
		name  string
		after time.Duration
		watts gpu.Watts
		want  gpu.Millijoules
	}{
		{"the first reading adds nothing", 0, 100, 0},
		{"constant", time.Second, 100, 100_000},
		{"rising", time.Second, 300, 300_000},
		{"a third of a second", time.Second / 3, 300, 399_999},
		{"its remainder is kept", 2 * time.Second / 3, 300, 599_999},
		{"this remainder is also kept", 10, 300, 600_000},
		{"the longest interval", 10 * time.Second, 300, 3_600_000},
		{"no readings", 10*time.Second + 1, 300, 3_600_000},
		{"and on", 2 * time.Second, 100, 4_000_000},
	}
	for _, tt := range steps {
		clock.Advance(tt.after)
		d.node.GPUs[0].Reading.Gauges[gpu.Power] = new(float64(tt.watts))
		d.write()
		r := gputest.Read(t, s).Readings[0]
		if r.Energy == nil || *r.Energy != tt.want {
			t.Fatalf("%s: energy is %v, want %d", tt.name, *r.Energy, tt.want)
		}
	}
	d.fault(anyGPU, "nvmlDeviceGetPowerUsage", "fail:999")
	if r := gputest.Read(t, s).Readings[0]; r.Energy != nil {
		t.Errorf("energy is %d without power", *r.Energy)
	}
	d.healed()
	if r := gputest.Read(t, s).Readings[0]; r.Energy == nil || *r.Energy != 4_000_000 {
		t.Errorf("energy is %v after a failure", r.Energy)
	}
}

func TestIntegralOutlivesRenumbering(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0), gputest.Plain(1)}}
	n.GPUs[1].Device.EnergySource = gpu.EnergyPower
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	clock.Advance(time.Second)
	before := *gputest.Read(t, s).Readings[1].Energy
	d.fault(n.GPUs[0].Device.UUID, "*", "drop")
	report := gputest.Eventually(t, s, "one GPU remains", func(r gpu.Report, err error) bool { return err == nil && len(r.Devices) == 1 })
	if after := *report.Readings[0].Energy; before == 0 || after != before {
		t.Errorf("the integral decreased from %d to %d mJ", before, after)
	}
}

// An integral must not restart at zero when a lost GPU returns.
func TestIntegralOutlivesLoss(t *testing.T) {
	clock := gputest.NewClock()
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}}
	n.GPUs[0].Device.EnergySource = gpu.EnergyPower
	d := newDriver(t, n)
	s := d.open(clock.Now)
	gputest.Read(t, s)
	clock.Advance(time.Second)
	before := *gputest.Read(t, s).Readings[0].Energy
	for _, lost := range []bool{true, false} {
		clock.Advance(time.Minute)
		d.node.GPUs[0].Lost = lost
		d.write()
		report := gputest.Read(t, s)
		if !lost && *report.Readings[0].Energy != before {
			t.Errorf("the integral decreased from %d to %d mJ", before, *report.Readings[0].Energy)
		}
	}
}

// The chosen counter must stay in use if it fails once while GPUs are renumbered.
func TestMeterOutlivesRenumbering(t *testing.T) {
	n := gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0), gputest.Plain(1)}}
	d := newDriver(t, n)
	kept := n.GPUs[1].Device.UUID
	d.fields[kept] = "energy_gpu=5000"
	d.write()
	s := d.open(gputest.NewClock().Now)
	gputest.Read(t, s)
	d.fault(n.GPUs[0].Device.UUID, "*", "drop")
	d.fault(kept, "nvmlDeviceGetFieldValues", "fail:999")
	gputest.Eventually(t, s, "one GPU remains", func(r gpu.Report, err error) bool { return err == nil && len(r.Devices) == 1 })
	for range 5 {
		report := gputest.Read(t, s)
		if got := report.Devices[0]; got.EnergyScope != gpu.ScopeGPU || report.Readings[0].Energy != nil {
			t.Errorf("scope %q, energy %v while the counter fails", got.EnergyScope, report.Readings[0].Energy)
		}
	}
}

// The energy source must be chosen again after a driver reload, because the new driver may have a better source.
func TestMeterOfANewDriver(t *testing.T) {
	d := newDriver(t, gputest.Node{GPUs: []gputest.GPU{gputest.Plain(0)}})
	s := d.open(gputest.NewClock().Now)
	gputest.Check(t, gputest.Read(t, s), d.node)
	d.fields[d.node.GPUs[0].Device.UUID] = "energy_gpu=5000"
	d.node.Loads++
	d.write()
	report := gputest.Eventually(t, s, "the driver responds", func(r gpu.Report, err error) bool { return err == nil })
	if scope, energy := report.Devices[0].EnergyScope, *report.Readings[0].Energy; scope != gpu.ScopeGPU || energy != 5000 {
		t.Errorf("scope %q, energy %d", scope, energy)
	}
}

// If the counter belongs to the module, both the GPU's power and the module's power must be read. An impossible power
// must not be reported.
func TestModulePower(t *testing.T) {
	tests := []struct {
		name, fields string
		want         gpu.ModulePower
	}{
		{"both", "energy=1\tenergy_module=3\tpower_gpu=30500\tpower_module=100000", gpu.ModulePower{GPU: 30.5, Module: 100}},
		{"only the GPU's power", "energy=1\tenergy_module=3\tpower_gpu=30500", gpu.ModulePower{GPU: 30.5}},
		{"neither", "energy=1\tenergy_module=3", gpu.ModulePower{}},
		{"ones", "energy=1\tenergy_module=3\tpower_gpu=4294967295\tpower_module=100000", gpu.ModulePower{Module: 100}},
		{"a counter of the GPU", "energy=1\tenergy_gpu=2\tenergy_module=3\tpower_gpu=30500\tpower_module=100000", gpu.ModulePower{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := readFields(t, tt.fields).Readings[0].ModulePower; got != tt.want {
				t.Errorf("power %+v, want %+v", got, tt.want)
			}
		})
	}
}
