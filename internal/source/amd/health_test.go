package amd_test

import (
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
)

// healthFiles contains files in the formats of the kernel's documentation (gpu/amdgpu/ras.rst, driver-misc.rst,
// thermal.rst, ABI/testing/sysfs-bus-pci).
var healthFiles = map[string]string{
	"current_link_width": "8\n", "max_link_width": "16\n", "current_link_speed": "16.0 GT/s PCIe\n", "max_link_speed": "32.0 GT/s PCIe\n",
	"pcie_replay_count":      "7\n",
	"ras/umc_err_count":      "ue: 1\nce: 12\n",
	"ras/gfx_err_count":      "ue: 0\nce: 2\n",
	"ras/sdma_err_count":     "ue: 4\nce: 3\n",
	"ras/pcie_bif_err_count": "ue: 0\nce: 99\n",
	"ras/gpu_vram_bad_pages": "0x00000001 : 0x00001000 : R\n0x00000002 : 0x00001000 : P\n0x000a0002 : 0x00001000 : R\n",
	"hwmon/hwmon3/name":      "amdgpu\n", "hwmon/hwmon3/temp3_label": "mem\n", "hwmon/hwmon3/temp3_input": "55000\n",
	"hwmon/hwmon3/power1_cap": "650000000\n", "hwmon/hwmon3/power1_cap_default": "750000000\n", "hwmon/hwmon3/power1_cap_max": "760000000\n",
}

func healthWant() map[string]float64 {
	return map[string]float64{
		"pcie_link_width": 8, "pcie_link_width_max": 16, "pcie_link_generation": 4, "pcie_link_generation_max": 5, "pcie_errors_total replay": 7,
		"ecc_errors_total dram correctable": 12, "ecc_errors_total dram uncorrectable": 1,
		"ecc_errors_total sram correctable": 5, "ecc_errors_total sram uncorrectable": 4,
		"retired_pages uncorrectable": 2, "retired_pages_pending": 1, "memory_temperature_celsius": 55,
		"power_limit_watts enforced": 650, "power_limit_watts default": 750, "power_limit_watts max": 760,
	}
}

func healthy(t *testing.T) *tree {
	d := one(t)
	d.health = true
	for name, content := range healthFiles {
		d.write(folder(bus1)+"/"+name, content)
	}
	return d
}

// healthAfter runs the steps at intervals of ten seconds, and returns the health after each step.
func healthAfter(t *testing.T, d *tree, steps ...func()) (got []map[string]float64) {
	t.Helper()
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	for _, step := range steps {
		step()
		clock.Advance(10 * time.Second)
		report := gputest.Read(t, s)
		if len(report.Readings) != 1 {
			t.Fatalf("%d readings, want 1", len(report.Readings))
		}
		values := make(map[string]float64)
		for _, v := range report.Readings[0].Health {
			name := strings.Join(append([]string{gpu.HealthInfos[v.Metric].Name}, v.Labels...), " ")
			if _, twice := values[name]; twice || len(v.Labels) != len(gpu.HealthInfos[v.Metric].Labels) {
				t.Errorf("%s is reported twice, or has too few labels", name)
			}
			values[name] = v.Value
		}
		got = append(got, values)
	}
	return got
}

// A value must be absent if its file is missing, and no values may be read if health is disabled.
func TestHealth(t *testing.T) {
	d := healthy(t)
	got := healthAfter(t, d, func() {}, func() {
		for name := range healthFiles {
			d.remove(folder(bus1) + "/" + name)
		}
	})
	if diff := cmp.Diff([]map[string]float64{healthWant(), {}}, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	d = healthy(t)
	d.health = false
	if got := healthAfter(t, d, func() {}); len(got[0]) > 0 {
		t.Errorf("health is disabled, but there are values: %v", got[0])
	}
}

func TestHealthInterval(t *testing.T) {
	d := healthy(t)
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	width := func() (w float64) {
		for _, v := range gputest.Read(t, s).Readings[0].Health {
			if v.Metric == gpu.PCIeLinkWidth {
				w = v.Value
			}
		}
		return w
	}
	before := width()
	d.write(folder(bus1)+"/current_link_width", "4")
	clock.Advance(9 * time.Second)
	early := width()
	clock.Advance(time.Second)
	if late := width(); before != 8 || early != 8 || late != 4 {
		t.Errorf("widths %v, %v and %v, want 8, 8 and 4", before, early, late)
	}
}

// Invalid content in a file must remove only the values from this file. They must return with the next valid content.
func TestDamagedHealth(t *testing.T) {
	contents := map[string]string{
		"text": "none", "negative": "-1", "too large": "18446744073709551615", "larger": "99999999999999999999", "a fraction": "1.5", "bytes": strings.Repeat("\xff", 16),
		"zero bytes": strings.Repeat("\x00", 16), "too long": strings.Repeat("1", 2<<20), "two lines": "1\n2",
	}
	removes := map[string][]string{
		"current_link_width": {"pcie_link_width"}, "max_link_width": {"pcie_link_width_max"}, "current_link_speed": {"pcie_link_generation"},
		"max_link_speed": {"pcie_link_generation_max"}, "pcie_replay_count": {"pcie_errors_total replay"},
		"ras/umc_err_count":        {"ecc_errors_total dram correctable", "ecc_errors_total dram uncorrectable"},
		"ras/gfx_err_count":        {"ecc_errors_total sram correctable", "ecc_errors_total sram uncorrectable"},
		"ras/pcie_bif_err_count":   nil,
		"ras/gpu_vram_bad_pages":   {"retired_pages uncorrectable", "retired_pages_pending"},
		"hwmon/hwmon3/temp3_label": {"memory_temperature_celsius"}, "hwmon/hwmon3/temp3_input": {"memory_temperature_celsius"},
		"hwmon/hwmon3/power1_cap": {"power_limit_watts enforced"}, "hwmon/hwmon3/power1_cap_default": {"power_limit_watts default"},
		"hwmon/hwmon3/power1_cap_max": {"power_limit_watts max"},
	}
	for file, names := range removes {
		want := healthWant()
		for _, name := range names {
			delete(want, name)
		}
		t.Run(file, func(t *testing.T) {
			d, path := healthy(t), folder(bus1)+"/"+file
			steps := []func(){func() {}}
			for _, content := range contents {
				steps = append(steps, func() { d.write(path, content) })
			}
			steps = append(steps, func() { d.remove(path); d.mkdir(path) }, func() { d.remove(path); d.write(path, healthFiles[file]) })
			got := healthAfter(t, d, steps...)
			for i, values := range got[1 : len(got)-1] {
				if diff := cmp.Diff(want, values); diff != "" {
					t.Errorf("values after step %d (-want +got):\n%s", i, diff)
				}
			}
			if diff := cmp.Diff(healthWant(), got[len(got)-1]); diff != "" {
				t.Errorf("values at the end (-want +got):\n%s", diff)
			}
			if n := strings.Count(d.log.String(), "\n"); n > 1 {
				t.Errorf("%d lines in the log, want at most one:\n%s", n, &d.log)
			}
		})
	}
}

// port is a PCIe root port.
const port = "sys/devices/pci0000:16/0000:16:01.0"

// plug moves the folder of a GPU below the port and links to it from the bus, as in the real sysfs.
func (d *tree) plug(address string) {
	d.t.Helper()
	d.mkdir(port)
	if err := os.Rename(d.path(folder(address)), d.path(port+"/"+address)); err != nil {
		d.t.Fatal(err)
	}
	d.link(folder(address), port+"/"+address)
}

func TestHealthNumbers(t *testing.T) {
	var many strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&many, "0x%08x : 0x00001000 : R\n", i)
	}
	for _, tt := range []struct {
		file, content, name string
		want                float64 // negative if there is no value
	}{
		{"current_link_width", "0", "pcie_link_width", -1},
		{"current_link_width", "63", "pcie_link_width", -1},
		{"current_link_width", "255", "pcie_link_width", -1},
		{"current_link_speed", "Unknown", "pcie_link_generation", -1},
		{"current_link_speed", "Unknown speed", "pcie_link_generation", -1},
		{"current_link_speed", "2.5 GT/s PCIe", "pcie_link_generation", 1},
		{"current_link_speed", "5.0 GT/s PCIe", "pcie_link_generation", 2},
		{"current_link_speed", "8.0 GT/s PCIe", "pcie_link_generation", 3},
		{"current_link_speed", "8 GT/s", "pcie_link_generation", 3},
		{"current_link_speed", "64.0 GT/s PCIe", "pcie_link_generation", 6},
		{"current_link_speed", "66 MHz PCI", "pcie_link_generation", -1},
		{"ras/gpu_vram_bad_pages", "", "retired_pages uncorrectable", 0},
		{"ras/gpu_vram_bad_pages", "", "retired_pages_pending", 0},
		{"ras/gpu_vram_bad_pages", "0x00000009 : 0x00001000 : F\n", "retired_pages_pending", 1},
		{"ras/gpu_vram_bad_pages", "0x00000009 : 0x00001000 : X\n", "retired_pages_pending", -1},
		{"ras/gpu_vram_bad_pages", "0x00000009 : 0x00001000", "retired_pages uncorrectable", -1},
		{"ras/gpu_vram_bad_pages", many.String(), "retired_pages uncorrectable", 3000},
		{"../max_link_width", "8", "pcie_link_width_max", 8},
		{"../max_link_width", "32", "pcie_link_width_max", 16},
		{"../max_link_width", "255", "pcie_link_width_max", 16},
		{"../max_link_speed", "8.0 GT/s PCIe", "pcie_link_generation_max", 3},
		{"../max_link_speed", "Unknown", "pcie_link_generation_max", 5},
		{"hwmon/hwmon3/power1_cap", "0", "power_limit_watts enforced", -1},
		{"hwmon/hwmon3/temp3_input", "0", "memory_temperature_celsius", -1},
	} {
		d := healthy(t)
		d.plug(bus1)
		d.write(port+"/"+bus1+"/"+tt.file, tt.content)
		values := healthAfter(t, d, func() {})[0]
		if got, known := values[tt.name]; known != (tt.want >= 0) || known && got != tt.want {
			t.Errorf("%s is %.40q: %s is %v (known: %t), want %v", tt.file, tt.content, tt.name, got, known, tt.want)
		}
	}
}

// A hanging file must delay only the readings of its GPU.
func TestHealthHangs(t *testing.T) {
	d := healthy(t)
	d.addCard(9, bus2, id2)
	d.write(metrics2, string(mi300(99, 300)))
	d.hang(folder(bus1) + "/ras/gpu_vram_bad_pages")
	s := gputest.Hasty(d.open(gputest.NewClock().Now))
	r := gputest.Eventually(t, s, "the other GPU is read", func(r gpu.Report, err error) bool { return err == nil && len(r.Readings) == 1 })
	if r.Readings[0].UUID != id2 {
		t.Errorf("a reading of %s, want a reading of the other GPU", r.Readings[0].UUID)
	}
}

// In revision 1.7, the cycle counter is at offset 40 (computed by a compiler). The residencies of PROCHOT, PPT, socket,
// voltage regulator and HBM follow.
func TestClockLimits(t *testing.T) {
	d := one(t)
	d.health = true
	set := func(cycles, prochot, ppt, vr uint32) func() {
		return func() {
			d.write(metrics1, string(mi300(10, 500).u32(40, cycles).u32(44, prochot).u32(48, ppt).u32(52, 0).u32(56, vr)))
		}
	}
	const start = math.MaxUint32 - 40_000
	got := healthAfter(t, d,
		set(start, 5, 700, 0),
		set(start+10_000, 5, 3_200, 10_000), // a quarter of ten seconds, and all of the ten seconds
		set(start+20_000, 5, 3_100, 10_000), // one count decreases
		set(start+30_000, 5, 3_100+20_000, 15_000),
		set(100, 0, 0, 0), // a reload of the driver, or an overflow
		set(10_100, 5_000, 0, 0),
		func() { d.write(metrics1, string(mi300(10, 500))) },
	)
	limits := func(prochot, ppt, vr float64) map[string]float64 {
		return map[string]float64{
			"clock_limited_seconds_total prochot": prochot, "clock_limited_seconds_total power_cap": ppt,
			"clock_limited_seconds_total socket_thermal": 0, "clock_limited_seconds_total regulator_thermal": vr,
		}
	}
	want := []map[string]float64{
		limits(0, 0, 0), limits(0, 2.5, 10), limits(0, 2.5, 10), limits(0, 2.5, 15), limits(0, 2.5, 15), limits(5, 2.5, 15), {},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// In the GPU's memory, a deferred error is an uncorrectable error in data that was not used yet. The driver counts it
// only as deferred (Linux, umc_v12_0.c). In other blocks, a deferred error may mean that such data was used. If a count
// decreases, it must be absent in this reading. The next count is compared with the decreased count.
func TestMemoryCounters(t *testing.T) {
	d := healthy(t)
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	read := func(after time.Duration, umc string) map[string]uint64 {
		d.write(ras1+"umc_err_count", umc)
		clock.Advance(after)
		counts := make(map[string]uint64)
		for _, c := range gputest.Read(t, s).Readings[0].Counters {
			counts[strings.Join(c.Labels, " ")+", "+c.Name[strings.LastIndexByte(c.Name, '/')+1:]] = c.Count
		}
		return counts
	}
	d.write(ras1+"gfx_err_count", "ue: 0\nce: 2\nde: 8\n")
	want := map[string]uint64{
		"dram correctable, umc": 12, "dram uncorrectable, umc": 1, "dram uncorrectable, umc deferred": 5,
		"sram correctable, gfx": 2, "sram uncorrectable, gfx": 0, "sram correctable, sdma": 3, "sram uncorrectable, sdma": 4,
	}
	check := func(when string, got map[string]uint64) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
	}
	check("first", read(0, "ue: 1\nce: 12\nde: 5\n"))
	check("not read again yet", read(time.Second, "ue: 1\nce: 13\nde: 5\n"))
	delete(want, "dram correctable, umc")
	delete(want, "dram uncorrectable, umc deferred")
	check("two counts decrease", read(10*time.Second, "ue: 1\nce: 2\nde: 0\n"))
	want["dram correctable, umc"], want["dram uncorrectable, umc deferred"] = 3, 0
	check("they continue", read(10*time.Second, "ue: 1\nce: 3\nde: 0\n"))
	d.health = false
	s = d.open(clock.Now)
	want = map[string]uint64{}
	check("without health", read(10*time.Second, "ue: 1\nce: 3\nde: 0\n"))
}

// The limits of socket, voltage regulator and HBM may overlap, so between two readings only the limit with the longest
// time counts. PROCHOT and the power limit are not thermal. If the file contains no thermal residencies, the time must
// be absent.
func TestThrottled(t *testing.T) {
	d := one(t)
	clock := gputest.NewClock()
	s := d.open(clock.Now)
	read := func(cycles, prochot, ppt, socket, vr, hbm uint32) *gpu.ThrottledTimes {
		d.write(metrics1, string(mi300(10, 500).u32(40, cycles).u32(44, prochot).u32(48, ppt).u32(52, socket).u32(56, vr).u32(60, hbm)))
		clock.Advance(2 * time.Second)
		return gputest.Read(t, s).Readings[0].Throttled
	}
	thermal := func(d time.Duration) *gpu.ThrottledTimes { return &gpu.ThrottledTimes{gpu.ThrottleThermal: d} }
	for i, tt := range []struct{ got, want *gpu.ThrottledTimes }{
		{read(1000, 7, 7, 100, 100, 100), thermal(0)},
		{read(3000, 1007, 2007, 100, 100, 100), thermal(0)},
		{read(5000, 1007, 2007, 600, 1100, 350), thermal(time.Second)},                                 // a quarter, a half and an eighth of two seconds
		{read(7000, 1007, 2007, 2600, 1100, 350), thermal(3 * time.Second)},                            // all of two seconds
		{read(100, 0, 0, 0, 0, 0), thermal(3 * time.Second)},                                           // a reload
		{read(2100, 0, 0, 0, 0, 500), thermal(3500 * time.Millisecond)},                                // a quarter of two seconds
		{read(4100, 0, 0, math.MaxUint32, math.MaxUint32, 1000), thermal(4 * time.Second)},             // not reported
		{read(6100, 0, 0, math.MaxUint32, math.MaxUint32, math.MaxUint32), nil},                        // no limit for heat
		{read(8100, 0, 0, math.MaxUint32, math.MaxUint32, 2000), thermal(5 * time.Second)},             // a quarter of four seconds
		{read(math.MaxUint32, 0, 0, math.MaxUint32, math.MaxUint32, 2000), (*gpu.ThrottledTimes)(nil)}, // no cycles
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("reading %d (-want +got):\n%s", i, diff)
		}
	}
}

// The sum over several blocks must be absent while one of the counts is unknown.
func TestSumFalls(t *testing.T) {
	d := healthy(t)
	const name = "ecc_errors_total sram correctable"
	got := healthAfter(t, d, func() {}, func() { d.remove(ras1 + "gfx_err_count") }, func() { d.write(ras1+"gfx_err_count", "ue: 0\nce: 4\n") })
	if _, known := got[1][name]; known || got[0][name] != 5 || got[2][name] != 7 {
		t.Errorf("%s is %v, %v and %v, want 5, absent and 7", name, got[0][name], got[1], got[2][name])
	}
}
