package amd_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

const (
	bus1, id1 = "0000:1b:00.0", "5a1f00000000001b"
	bus2, id2 = "0000:1c:00.0", "5a1f00000000001c"
	metrics1  = "sys/bus/pci/devices/" + bus1 + "/gpu_metrics"
	metrics2  = "sys/bus/pci/devices/" + bus2 + "/gpu_metrics"
	hwmon1    = "sys/bus/pci/devices/" + bus1 + "/hwmon/hwmon5"
	kfdProc   = "sys/class/kfd/kfd/proc/"
	joule     = 1 << 16
)

// mi300 returns a gpu_metrics file of revision 1.7.
func mi300(joules uint64, watts uint16) blob {
	return newBlob(1, 7, 2208).u64(24, joules*joule).u16(10, watts)
}

// one returns a tree with one GPU and its node in amdkfd's topology.
func one(t *testing.T) *tree {
	d := newTree(t)
	d.addCard(1, bus1, id1)
	d.addNode(1, "40011", 0x1b00, 128, 8)
	d.write(metrics1, string(mi300(10, 500)))
	d.renumbered()
	return d
}

// energies runs the steps once a second, and returns the energy in joules and the energy source after each step.
func energies(t *testing.T, d *tree, steps ...func()) (got []string) {
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	for _, step := range steps {
		step()
		clock.Advance(time.Second)
		report := gputest.Read(t, s)
		switch {
		case len(report.Devices) == 0:
			got = append(got, "no device")
		case len(report.Readings) == 0:
			got = append(got, "no reading")
		case report.Readings[0].Energy == nil:
			got = append(got, fmt.Sprintf("%s none", report.Devices[0].EnergySource))
		default:
			got = append(got, fmt.Sprintf("%s %.3f", report.Devices[0].EnergySource, report.Readings[0].Energy.Joules()))
		}
	}
	return got
}

// A gpu_metrics file that is too short, is truncated or has an unknown revision must not be used. The source must read
// hwmon instead.
func TestDamaged(t *testing.T) {
	whole := string(mi300(10, 500))
	tests := map[string]string{
		"empty": "", "short": whole[:3], "torn": whole[:1000], "ones": strings.Repeat("\xff", 2208), "zeros": strings.Repeat("\x00", 2208),
		"later revision": string(newBlob(1, 77, 2208).u64(24, 10*joule)), "nothing reported": string(newBlob(1, 7, 2208)),
		"too long": strings.Repeat("\x00", 1<<20),
	}
	for name, content := range tests {
		t.Run(name, func(t *testing.T) {
			d := one(t)
			d.write(hwmon1+"/name", "amdgpu")
			d.write(hwmon1+"/power1_input", "250000000")
			got := energies(t, d, func() {}, func() { d.write(metrics1, content) }, func() {}, func() {}, func() {}, func() { d.write(metrics1, whole) })
			want := []string{"counter 10.000", "counter none", "counter none"}
			if diff := cmp.Diff(want, got[:3]); diff != "" {
				t.Errorf("energy (-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(got[3], "power ") || !strings.HasPrefix(got[4], "power ") {
				t.Errorf("energy without gpu_metrics: %v", got)
			}
			if n := strings.Count(d.log.String(), "\n"); n > 1 {
				t.Errorf("%d lines in the log, want one at most:\n%s", n, &d.log)
			}
		})
	}
}

// A GPU with unreadable files must stay in the list, and the error must be logged once.
func TestUnreadable(t *testing.T) {
	d := one(t)
	got := energies(t, d, func() {}, func() { d.remove(metrics1) }, func() {}, func() { d.write(metrics1, string(mi300(12, 500))) })
	if diff := cmp.Diff([]string{"counter 10.000", "no reading", "no reading", "counter 12.000"}, got); diff != "" {
		t.Errorf("energy (-want +got):\n%s", diff)
	}
	if log := d.log.String(); strings.Count(log, "\n") != 2 || !strings.Contains(log, "GPU cannot be read") || !strings.Contains(log, "GPU recovered") {
		t.Errorf("log:\n%s", log)
	}
}

// A GPU without a unique id, such as an integrated GPU, must not be listed.
func TestNoID(t *testing.T) {
	for _, id := range []string{"", "0000000000000000", "ffffffffffffffff"} {
		d := one(t)
		d.write(folder(bus1)+"/unique_id", id)
		if got := energies(t, d, func() {}, func() {}); got[1] != "no device" {
			t.Errorf("%q: %v", id, got)
		}
		if n := strings.Count(d.log.String(), "unique_id"); n != 1 {
			t.Errorf("%q: %d lines in the log", id, n)
		}
	}
}

func TestOtherDevices(t *testing.T) {
	tests := map[string]func(*tree){
		"a Radeon":       func(d *tree) { d.write(folder(bus1)+"/class", "0x030000") },
		"another vendor": func(d *tree) { d.write(folder(bus1)+"/vendor", "0x10de") },
		"no PCI device":  func(d *tree) { d.link("sys/class/drm/card1/device", "sys/devices/platform/simple-framebuffer.0") },
		"a connector": func(d *tree) {
			d.link("sys/class/drm/card1-DP-1/device", folder(bus1))
			d.remove("sys/class/drm/card1")
		},
	}
	for name, change := range tests {
		d := one(t)
		change(d)
		if got := energies(t, d, func() {}); got[0] != "no device" {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestHive(t *testing.T) {
	for content, want := range map[string]string{
		"6566135270000634472\n": "5b1f993d3b8d2a68 0 completed", "81985529216486895": "0123456789abcdef 0 completed",
		"0": "", "": "", "18446744073709551615": "", "5b1f": "", "-1": "",
	} {
		d := one(t)
		d.optional(folder(bus1)+"/xgmi_hive_info/xgmi_hive_id", content)
		got := ""
		if f := gputest.Read(t, d.open(gputest.NewClock().Now)).Devices[0].Fabric; f != nil {
			got = fmt.Sprint(f.ClusterUUID, " ", f.CliqueID, " ", f.State)
		}
		if got != want {
			t.Errorf("%q: fabric %q, want %q", content, got, want)
		}
	}
}

// Both GPUs of an MI250 have the module's serial number. Only the first GPU reports an energy, which covers the whole
// module.
func TestModule(t *testing.T) {
	for _, device := range []string{"0x740c", "0xffff"} {
		d := one(t)
		d.addCard(2, bus2, id2)
		d.write(metrics1, string(newBlob(1, 3, 120).u16(22, 400).u64(24, 10*joule)))
		d.write(metrics2, string(newBlob(1, 3, 120).u16(22, 0).u64(24, 0)))
		for _, bus := range []string{bus1, bus2} {
			d.write(folder(bus)+"/serial_number", "692251000001\n")
			d.write(folder(bus)+"/device", device)
			d.write(folder(bus)+"/hwmon/hwmon4/power1_average", "0")
		}
		r := gputest.Read(t, d.open(gputest.NewClock().Now))
		first, second := r.Devices[0], r.Devices[1]
		if first.EnergySource != gpu.EnergyCounter || first.EnergyScope != gpu.ScopeModule || second.EnergySource != gpu.EnergyNone || second.EnergyScope != "" {
			t.Errorf("device %s: energy %q of %q, and %q of %q", device, first.EnergySource, first.EnergyScope, second.EnergySource, second.EnergyScope)
		}
		if r.Readings[1].Energy != nil || r.Readings[1].Gauges[gpu.Power] != nil {
			t.Errorf("the second GPU has the energy %v and the power %v", r.Readings[1].Energy, r.Readings[1].Gauges[gpu.Power])
		}
		if first.Serial != second.Serial || first.Serial != "692251000001" {
			t.Errorf("serial numbers %q and %q", first.Serial, second.Serial)
		}
	}
}

// A recorded tree contains folders instead of links to devices.
func TestRecordedFolder(t *testing.T) {
	d := newTree(t)
	d.mkdir("sys/class/drm")
	for name, content := range map[string]string{
		"uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=" + bus1 + "\n", "vendor": "0x1002\n", "class": "0x038000\n", "device": "0x740f\n",
		"unique_id": id1 + "\n", "gpu_metrics": string(mi300(10, 500)),
	} {
		d.write("sys/class/drm/card7/device/"+name, content)
	}
	r := gputest.Read(t, d.open(gputest.NewClock().Now))
	want := []gpu.Device{{
		UUID: id1, Index: 7, Position: new(0), DeviceNode: "dri/card7", PCIBusID: "00000000:1B:00.0", Vendor: "AMD", Model: "AMD Instinct MI210",
		EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU,
	}}
	if diff := cmp.Diff(want, r.Devices); diff != "" {
		t.Errorf("devices (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]gpu.Driver{{Vendor: "AMD", Name: "amdgpu", Version: "6.12.0"}}, r.Drivers); diff != "" {
		t.Errorf("driver (-want +got):\n%s", diff)
	}
}

func TestProcesses(t *testing.T) {
	d := one(t)
	d.addCard(2, bus2, id2)
	d.addNode(2, "40022", 0x1c00, 129, 8)
	d.write(metrics2, string(mi300(10, 500)))
	// Process 100 has memory, and process 101 has a queue.
	d.write(kfdProc+"100/vram_40011", "4096\n")
	d.write(kfdProc+"101/vram_40011", "0\n")
	d.write(kfdProc+"101/queues/0/gpuid", "40022\n")
	d.write(kfdProc+"101/queues/7/gpuid", "40011\n")
	d.write(kfdProc+"102/vram_40011", "0\n") // has only opened /dev/kfd
	d.mkdir(kfdProc + "102/queues")
	d.write(kfdProc+"103/vram_40022", "5\n")      // may use only the other GPU
	d.mkdir(kfdProc + "104")                      // has ended
	d.mkdir(kfdProc + "105/queues/3")             // its queue has ended
	d.write(kfdProc+"106/vram_40011", "nonsense") // has a queue, but its memory is unknown
	d.write(kfdProc+"106/queues/0/gpuid", "40011")
	d.write(kfdProc+"0/vram_40011", "1")
	d.write(kfdProc+"self/vram_40011", "1")
	r := gputest.Read(t, d.open(gputest.NewClock().Now))
	want := map[string][]gpu.Context{
		id1: {{PID: 100, MemoryUsed: new(uint64(4096))}, {PID: 101, MemoryUsed: new(uint64(0))}, {PID: 106}},
		id2: {{PID: 101}, {PID: 103, MemoryUsed: new(uint64(5))}},
	}
	for _, reading := range r.Readings {
		if diff := cmp.Diff(want[reading.UUID], reading.Contexts); diff != "" || !reading.ContextsKnown {
			t.Errorf("GPU %s: known %v, processes (-want +got):\n%s", reading.UUID, reading.ContextsKnown, diff)
		}
	}
}

// The processes must be unknown if amdkfd is missing or lists too many processes.
func TestProcessesUnknown(t *testing.T) {
	tests := map[string]func(*tree){
		"no amdkfd": func(d *tree) { d.remove("sys/class/kfd") },
		"no node":   func(d *tree) { d.remove("sys/class/kfd/kfd/topology/nodes/1") },
		"too many": func(d *tree) {
			for pid := range 4097 {
				d.mkdir(fmt.Sprint(kfdProc, pid+1))
			}
		},
	}
	for name, change := range tests {
		d := one(t)
		change(d)
		if r := gputest.Read(t, d.open(gputest.NewClock().Now)).Readings[0]; r.ContextsKnown || r.SamplesKnown || r.Energy == nil {
			t.Errorf("%s: processes known %v, samples known %v, energy %v", name, r.ContextsKnown, r.SamplesKnown, r.Energy)
		}
	}
}

// The GPU's activity must be divided among the processes in proportion to the compute units that they occupy.
func TestOccupancy(t *testing.T) {
	tests := map[string]struct {
		busy        uint16
		units       map[int]string
		want        map[uint32]float64
		unavailable bool
	}{
		"two":              {80, map[int]string{100: "30", 101: "10"}, map[uint32]float64{100: 0.6, 101: 0.2}, false},
		"one of two works": {80, map[int]string{100: "304", 101: "0"}, map[uint32]float64{100: 0.8}, false},
		"idle":             {0, map[int]string{100: "0", 101: "0"}, nil, false},
		"idle, just ended": {0, map[int]string{100: "8", 101: "0"}, nil, false},
		"busy, not seen":   {80, map[int]string{100: "0", 101: "0"}, nil, true},
		"not reported":     {80, map[int]string{100: "30"}, nil, true},
		"garbage":          {80, map[int]string{100: "30", 101: "-1"}, nil, true},
		"no activity":      {0xffff, map[int]string{100: "30", 101: "30"}, nil, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := one(t)
			d.write(metrics1, string(mi300(10, 500).u16(12, tt.busy)))
			for _, pid := range []int{100, 101} {
				d.write(fmt.Sprintf("%s%d/vram_40011", kfdProc, pid), "1")
			}
			for pid, units := range tt.units {
				d.write(fmt.Sprintf("%s%d/stats_40011/cu_occupancy", kfdProc, pid), units)
			}
			clock := gputest.NewClock()
			s := d.open(clock.Now)
			if r := gputest.Read(t, s).Readings[0]; r.SamplesKnown {
				t.Error("the first reading has samples")
			}
			began := clock.Now().Boot
			clock.Advance(time.Second)
			r := gputest.Read(t, s).Readings[0]
			got := make(map[uint32]float64)
			span := gpu.Span{From: began, To: clock.Now().Boot}
			for _, x := range r.Samples {
				got[x.PID] = x.SM
				if x.Span != span {
					t.Errorf("a sample covers %v, want %v", x.Span, span)
				}
			}
			if diff := cmp.Diff(tt.want, got, cmpopts.EquateEmpty(), cmpopts.EquateApprox(0, 1e-9)); diff != "" {
				t.Errorf("activity (-want +got):\n%s", diff)
			}
			weighted := r.SamplesKnown || name == "busy, not seen"
			if r.SamplesKnown == tt.unavailable || r.WeightedSamples != weighted || r.SamplesKnown && r.Sampled != span {
				t.Errorf("known %v, weights %v, span %v", r.SamplesKnown, r.WeightedSamples, r.Sampled)
			}
		})
	}
}

// The activity sums must take precedence over the firmware's average, unless a sum decreased or is impossible.
func TestUtilization(t *testing.T) {
	tests := map[string]struct {
		sum, samples uint32
		want         float64
	}{
		"half": {50_000, 1000, 0.5}, "idle": {0, 1000, 0}, "whole": {100_000, 1000, 1}, "rounded": {100_001, 1000, 1},
		"too much": {200_000, 1000, 0.8}, "no sample": {50_000, 0, 0.8}, "fell": {^uint32(0) - 5000, 1000, 0.8},
	}
	for name, tt := range tests {
		d := one(t)
		file := func(sum, samples uint32) string {
			return string(mi300(10, 500).u16(12, 80).u32(76, 1_000_000+sum).u32(40, 7000+samples))
		}
		clock := gputest.NewClock()
		s := d.open(clock.Now)
		d.write(metrics1, file(0, 0))
		if u := gputest.Read(t, s).Readings[0].Gauges[gpu.Utilization]; u == nil || *u != 0.8 {
			t.Errorf("%s: first utilisation %v, want 0.8", name, u)
		}
		d.write(metrics1, file(tt.sum, tt.samples))
		clock.Advance(time.Second)
		if u := gputest.Read(t, s).Readings[0].Gauges[gpu.Utilization]; u == nil || *u != tt.want {
			t.Errorf("%s: utilisation %v, want %v", name, u, tt.want)
		}
	}
}

// Without an energy counter, the power must be integrated over a long tick.
func TestPowerOverLongTick(t *testing.T) {
	d := one(t)
	d.tick = 30 * time.Second
	d.write(metrics1, string(newBlob(1, 7, 2208).u16(10, 500)))
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	gputest.Read(t, s)
	clock.Advance(d.tick)
	if diff := cmp.Diff(new(gpu.Millijoules(15_000_000)), gputest.Read(t, s).Readings[0].PowerSum); diff != "" {
		t.Errorf("energy of 500 W over 30 s (-want +got):\n%s", diff)
	}
}
