package dcgm_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// TestAlone reads an engine without any library beside it: all but who is on the GPUs,
// and what MIG devices are called, is there.
func TestAlone(t *testing.T) {
	e := newEngine(t, gputest.Full(0), gputest.Plain(1), gputest.Bare(2), gputest.Divided(3))
	s := e.open()
	report := e.readAll(s)
	want := gpu.Driver{Source: "dcgm", DriverVersion: "570.86.15", NVMLVersion: "12.570.86.15", DCGMVersion: "4.6.1", DCGMLibraryVersion: "4.6.1"}
	if report.Driver != want {
		t.Errorf("driver is %+v", report.Driver)
	}
	e.pass(time.Second)
	e.readAll(s)
}

// TestTimes: a counter's value has the time at which the engine read it, and an engine
// that stops reading is not taken for one that does.
func TestTimes(t *testing.T) {
	e := newEngine(t, pair()...)
	s := e.open()
	e.readAll(s)
	began := e.clock.Now()
	energy := *e.node.GPUs[0].Reading.Energy
	e.node.GPUs[0].Reading.Energy = new(energy + 5000)
	e.pass(400 * time.Millisecond) // the engine reads twice a second
	r := gputest.Read(t, s).Readings[0]
	if r.At != began || *r.Energy != energy {
		t.Errorf("%d mJ at %v, want %d at %v", *r.Energy, r.At.Boot, energy, began.Boot)
	}
	e.pass(100 * time.Millisecond)
	if r = gputest.Read(t, s).Readings[0]; r.At != e.clock.Now() || *r.Energy != energy+5000 {
		t.Errorf("%d mJ at %v, want %d at %v", *r.Energy, r.At.Boot, energy+5000, e.clock.Now().Boot)
	}

	last := r.At
	e.fault(e.node.GPUs[0].Device.UUID, "*", "hang")
	for range 3 {
		e.pass(time.Second)
		if r := gputest.Read(t, s).Readings[0]; r.At != last {
			t.Errorf("a GPU that hangs was read at %v", r.At.Boot)
		}
	}
	e.pass(time.Second)
	report := gputest.Read(t, s)
	if len(report.Devices) != 2 || len(report.Readings) != 1 || report.Readings[0].UUID != e.node.GPUs[1].Device.UUID {
		t.Errorf("after four seconds there are %d devices and %d readings", len(report.Devices), len(report.Readings))
	}
}

// TestClockStep: the clock was set back after the engine had read its values.
func TestClockStep(t *testing.T) {
	e := newEngine(t, pair()...)
	now := e.clock.Now()
	now.Wall = now.Wall.Add(-time.Hour)
	e.cfg.Now = func() gpu.Instant { return now }
	for _, r := range e.readAll(e.open()).Readings {
		if r.At != now {
			t.Errorf("a value from the future is of %v, now is %v", r.At, now)
		}
	}
}

// TestClockStepThatStays: an engine whose newest values stay those of before the clock was
// set back gives no readings, once they are old.
func TestClockStepThatStays(t *testing.T) {
	e := newEngine(t, pair()...)
	back := time.Duration(0)
	e.cfg.Now = func() gpu.Instant {
		now := e.clock.Now()
		now.Wall = now.Wall.Add(-back)
		return now
	}
	s := e.open()
	e.readAll(s)
	back = time.Hour
	began := e.clock.Now().Boot
	for _, g := range e.node.GPUs { // the engine's values stay those of before
		e.fault(g.Device.UUID, "*", "hang")
	}
	for passed := range 6 {
		want := 2
		if passed > 3 {
			want = 0
		}
		r := gputest.Read(t, s)
		if len(r.Devices) != 2 || len(r.Readings) != want {
			t.Errorf("after %d s: %d devices, %d readings; want 2, %d", passed, len(r.Devices), len(r.Readings), want)
		}
		for _, r := range r.Readings {
			if r.Energy != nil && r.At.Boot != began {
				t.Errorf("after %d s: energy of %v, want %v", passed, r.At.Boot, began)
			}
		}
		e.pass(time.Second)
	}
}

// TestBlanks lets a field after the other be blank, or fail, of a GPU that is whole and of
// one in MIG mode. Nothing else is missing, and no blank is taken for a number.
func TestBlanks(t *testing.T) {
	gpus := func() []gputest.GPU { return []gputest.GPU{gputest.Full(0), gputest.Divided(1)} }
	e := newEngine(t, gpus()...)
	tests := map[int]func(*gputest.GPU){
		155: func(g *gputest.GPU) { g.Reading.Power = nil },
		156: func(g *gputest.GPU) { g.Reading.Energy = nil },
		164: func(g *gputest.GPU) { g.Reading.PowerLimit = nil },
		150: func(g *gputest.GPU) { g.Reading.Temperature = nil },
		203: func(g *gputest.GPU) { g.Reading.Utilization = nil },
		252: func(g *gputest.GPU) { g.Reading.MemoryUsed = nil },
		250: func(g *gputest.GPU) { g.Reading.MemoryTotal = nil },
		100: func(g *gputest.GPU) { g.Reading.SMClock = nil },
		101: func(g *gputest.GPU) { g.Reading.MemoryClock = nil },
		395: func(g *gputest.GPU) { g.Reading.RowRemap = nil },
		396: func(g *gputest.GPU) { g.Reading.RowRemap = nil },
		230: func(*gputest.GPU) {},
		67:  func(*gputest.GPU) {},
	}
	s := e.open()
	e.readAll(s)
	for id, effect := range tests {
		for _, do := range []string{"blank", "fail:-6", "fail:-14"} {
			for i, g := range gpus() {
				e.fault(g.Device.UUID, fmt.Sprintf("field:%d", id), do)
				e.pass(time.Second)
				want := without(gpus())
				effect(&want.GPUs[i])
				gputest.Check(t, gputest.Read(t, s), want)
				e.healed()
				e.pass(time.Second)
				e.readAll(s)
			}
		}
	}
}

// TestAbsurdNumbers lets every number of a GPU be one that cannot be, from the start. The
// GPU is read all the same, and a report of it can be saved.
func TestAbsurdNumbers(t *testing.T) {
	for _, absurd := range []string{"-inf", "inf", "nan", "-1", "9223372036854775807"} {
		t.Run(absurd, func(t *testing.T) {
			e := newEngine(t, pair()...)
			uuid := e.node.GPUs[0].Device.UUID
			e.fault(uuid, "*", "says:"+absurd)
			report := gputest.Read(t, e.open())
			if len(report.Devices) != 2 || report.Devices[0].MaxPower < 0 {
				t.Errorf("devices %+v", report.Devices)
			}
			if _, err := json.Marshal(report.Devices); err != nil {
				t.Error(err)
			}
			for _, r := range report.Readings {
				if r.Energy != nil && *r.Energy < 0 || r.Power != nil && *r.Power < 0 || r.Utilization != nil && *r.Utilization > 1 {
					t.Errorf("reading %+v", r)
				}
			}
		})
	}
}

// TestIdentity lets the fields of identity be blank, fail, or be missing altogether,
// which fails a live read as a whole. The others are told all the same, and what may be
// told later is asked for again.
func TestIdentity(t *testing.T) {
	tests := map[int]func(*gpu.Device){
		52:  func(d *gpu.Device) { d.Index = 0 },
		50:  func(d *gpu.Device) { d.Model = "" },
		53:  func(d *gpu.Device) { d.Serial = "" },
		55:  func(d *gpu.Device) { d.DeviceNode = "" },
		57:  func(d *gpu.Device) { d.PCIBusID = "" },
		85:  func(d *gpu.Device) { d.VBIOSVersion = "" },
		162: func(d *gpu.Device) { d.MaxPower = 1000 },
		572: func(d *gpu.Device) { d.Platform.ChassisSerial = "" },
		573: func(d *gpu.Device) { d.Platform.Slot = nil },
		574: func(d *gpu.Device) { d.Platform.Tray = nil },
		575: func(d *gpu.Device) { d.Platform.HostID = nil },
		576: func(d *gpu.Device) { d.Platform.PeerType = nil },
		577: func(d *gpu.Device) { d.Platform.ModuleID = nil },
		170: func(d *gpu.Device) { d.Fabric = nil },
		172: func(d *gpu.Device) { d.Fabric.ClusterUUID = "" },
		173: func(d *gpu.Device) { d.Fabric.CliqueID = 0 },
		1:   func(*gpu.Device) {},
	}
	for id, effect := range tests {
		for _, do := range []string{"blank", "fail:-6", "drop"} {
			t.Run(fmt.Sprintf("%d %s", id, do), func(t *testing.T) {
				e := newEngine(t, pair()...)
				one := e.node.GPUs[1].Device.UUID
				e.fault(one, fmt.Sprintf("field:%d", id), do)
				s := e.open()
				want := without(pair())
				fabric := *want.GPUs[1].Device.Fabric
				want.GPUs[1].Device.Fabric = &fabric
				effect(&want.GPUs[1].Device)
				gputest.Check(t, gputest.Read(t, s), want)
				e.healed()
				e.pass(10 * time.Second)
				if do != "blank" { // which is the driver's last word
					e.readAll(s)
				}
			})
		}
	}
}
