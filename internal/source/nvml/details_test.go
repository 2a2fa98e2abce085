package nvml_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
)

// detailValues contains values of the driver with the expected value of a metric. The numbers of fields, modes and
// units are copied from nvml.h. TestDetailGroups checks the values that are read only together with other values.
var detailValues = map[string]struct {
	metric string
	value  float64
}{
	"margin=-3":                    {"temperature_margin_celsius", -3},
	"clock_max_graphics=1980":      {"clock_max_hertz graphics", 1_980_000_000},
	"clock_max_sm=1981":            {"clock_max_hertz sm", 1_981_000_000},
	"clock_max_memory=2619":        {"clock_max_hertz memory", 2_619_000_000},
	"clock_max_video=1545":         {"clock_max_hertz video", 1_545_000_000},
	"field170=14":                  {"c2c_links", 14},
	"inforom=1":                    {"inforom_valid", 1},
	"gsp=580.65.06":                {"firmware_info gsp 580.65.06", 1},
	"inforom_image=G520.0200.0.05": {"firmware_info inforom G520.0200.0.05", 1},
	"persistence=1":                {"mode_info persistence enabled", 1},
	"compute=3":                    {"mode_info compute exclusive_process", 1},
}

type detailReader struct {
	*driver
	clock *gputest.Clock
	s     *nvml.Source
}

func newDetailReader(t *testing.T, fields ...string) *detailReader {
	node := gputest.Node{GPUs: []gputest.GPU{gputest.Full(0)}}
	node.GPUs[0].Reading.RowRemap, node.GPUs[0].Device.ReportsEvents = nil, false // some tests need these calls with other values
	r := &detailReader{newDriver(t, node), gputest.NewClock(), nil}
	r.report(fields...)
	r.s = r.open(r.clock.Now)
	return r
}

func (r *detailReader) uuid() string { return r.node.GPUs[0].Device.UUID }

func (r *detailReader) report(fields ...string) {
	r.lines = []string{"health\tgpu=" + r.uuid() + "\t" + strings.Join(fields, "\t")}
	r.write()
}

// read returns the values by metric and labels.
func (r *detailReader) read(after time.Duration) map[string]float64 {
	r.t.Helper()
	r.clock.Advance(after)
	found := make(map[string]float64)
	for _, v := range gputest.Read(r.t, r.s).Readings[0].Details {
		info := gpu.HealthInfos[v.Metric]
		if !info.Detail || len(info.Labels) != len(v.Labels) {
			r.t.Errorf("%s has the labels %q, must have %q", info.Name, v.Labels, info.Labels)
		}
		found[strings.Join(append([]string{info.Name}, v.Labels...), " ")] = v.Value
	}
	return found
}

func (r *detailReader) want(after time.Duration, want map[string]float64) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.read(after)); diff != "" {
		r.t.Errorf("details (-want +got):\n%s", diff)
	}
}

// TestDetails reads all values together, and each value alone. Values that the GPU does not report must be missing.
func TestDetails(t *testing.T) {
	all := make(map[string]float64)
	for field, v := range detailValues {
		all[v.metric] = v.value
		t.Run(field, func(t *testing.T) { newDetailReader(t, field).want(0, map[string]float64{v.metric: v.value}) })
	}
	t.Run("all", func(t *testing.T) { newDetailReader(t, slices.Collect(maps.Keys(detailValues))...).want(0, all) })
	t.Run("none", func(t *testing.T) { newDetailReader(t).want(0, map[string]float64{}) })

	seen := []string{"fan_speed_ratio", "clock_reason_active", "c2c_links_active"} // TestDetailGroups
	for metric := range all {
		seen = append(seen, strings.Fields(metric)[0])
	}
	for _, info := range gpu.HealthInfos {
		if info.Detail && !slices.Contains(seen, info.Name) {
			t.Errorf("no value of %s is tested", info.Name)
		}
	}
}

func TestDetailGroups(t *testing.T) {
	for name, tt := range map[string]struct {
		fields []string
		gpu    string // fields of the GPU's record
		system string // fields of the driver's record
		want   map[string]float64
	}{
		"fans": {
			fields: []string{"fans=3", "fan0=40", "fan2=107"},
			want:   map[string]float64{"fan_speed_ratio 0": 0.4, "fan_speed_ratio 2": 1.07},
		},
		"reasons that the GPU reports": { // nvml.h: power cap 0x4, hardware slowdown 0x8, hardware thermal 0x40, reliability 0x400
			fields: []string{fmt.Sprint("clock_reasons=", 0x4|0x8|0x40)}, gpu: fmt.Sprint("clocks_event_reasons=", 0x8|0x40|0x400),
			want: map[string]float64{"clock_reason_active power_cap": 0, "clock_reason_active hardware_slowdown": 1, "clock_reason_active hardware_thermal": 1},
		},
		"all reasons": {
			fields: []string{"clock_reasons=2047"}, gpu: "clocks_event_reasons=2047",
			want: map[string]float64{
				"clock_reason_active idle": 1, "clock_reason_active application_clocks": 1, "clock_reason_active power_cap": 1,
				"clock_reason_active hardware_slowdown": 1, "clock_reason_active sync_boost": 1, "clock_reason_active software_thermal": 1,
				"clock_reason_active hardware_thermal": 1, "clock_reason_active power_brake": 1, "clock_reason_active display_clocks": 1,
				"clock_reason_active board_limit": 1, "clock_reason_active reliability": 1,
			},
		},
		"C2C links":            {fields: []string{"field170=2", "field171=1", "field171.1=0"}, want: map[string]float64{"c2c_links": 2, "c2c_links_active": 1}},
		"a C2C link is silent": {fields: []string{"field170=3", "field171=1", "field171.2=1"}, want: map[string]float64{"c2c_links": 3}},
		"corrupt InfoROM":      {fields: []string{"inforom=0"}, want: map[string]float64{"inforom_valid": 0}},
		"MIG mode":             {gpu: "mig=0", want: map[string]float64{"mode_info mig disabled": 1, "mode_info mig_pending disabled": 1}},
		"MIG mode from the next reset on": {
			fields: []string{"mig_pending=1"}, gpu: "mig=0",
			want: map[string]float64{"mode_info mig disabled": 1, "mode_info mig_pending enabled": 1},
		},
		"confidential computing":            {system: "cc=1\tcc_devtools=0", want: map[string]float64{"mode_info confidential_computing enabled": 1}},
		"no confidential computing":         {system: "cc=0\tcc_devtools=0", want: map[string]float64{"mode_info confidential_computing disabled": 1}},
		"confidential computing with tools": {system: "cc=1\tcc_devtools=1", want: map[string]float64{"mode_info confidential_computing devtools": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newDetailReader(t)
			r.fields[r.uuid()] = tt.gpu
			if tt.system != "" {
				r.system = "\t" + tt.system
			}
			r.report(tt.fields...)
			r.want(0, tt.want)
		})
	}
}

func TestDetailsAbsurd(t *testing.T) {
	for _, absurd := range []string{"4294967295", "18446744073709551615", "9223372036854775807", "2147483647", "-1"} {
		t.Run(absurd, func(t *testing.T) {
			r := newDetailReader(t)
			var fields []string
			for _, key := range []string{
				"clock_max_graphics", "clock_max_sm", "clock_max_memory", "clock_max_video", "fans", "fan0", "clock_reasons", "persistence", "compute", "mig_pending", "field170",
			} {
				fields = append(fields, key+"="+absurd)
			}
			r.fields[r.uuid()] = "clocks_event_reasons=" + absurd + "\tmig=0"
			r.system = "\tcc=" + absurd
			r.report(fields...)
			r.want(0, map[string]float64{"mode_info mig disabled": 1})
		})
	}
	for fields, want := range map[string]map[string]float64{
		"margin=201":                               {},
		"margin=-201":                              {},
		"margin=2147483647":                        {},
		"field170=0":                               {},
		"field170=65 fans=17 compute=1":            {},
		"clock_max_sm=0":                           {},
		"field170=1 field171=2 fans=1 fan0=301":    {"c2c_links": 1},
		"persistence=2 compute=4 clock_reasons=-2": {},
	} {
		t.Run(fields, func(t *testing.T) { newDetailReader(t, strings.Fields(fields)...).want(0, want) })
	}
}

// While a call fails, only its values may be missing. They must return with the next call that succeeds.
func TestDetailCallFails(t *testing.T) {
	const day = 24 * time.Hour
	for call, tt := range map[string]struct {
		field, metric string
		due           time.Duration
	}{
		"nvmlDeviceGetMarginTemperature":   {"margin=20", "temperature_margin_celsius", 10 * time.Second},
		"nvmlDeviceGetFanSpeed":            {"fans=1\tfan0=50", "fan_speed_ratio 0", 10 * time.Second},
		"nvmlDeviceGetNumFans":             {"fans=1\tfan0=50", "fan_speed_ratio 0", 10 * time.Second},
		"nvmlDeviceGetFieldValues":         {"field170=2", "c2c_links", 10 * time.Second},
		"nvmlDeviceGetMaxClockInfo":        {"clock_max_sm=1980", "clock_max_hertz sm", 10 * time.Minute},
		"nvmlDeviceGetGspFirmwareVersion":  {"gsp=580.65.06", "firmware_info gsp 580.65.06", 10 * time.Minute},
		"nvmlDeviceGetInforomImageVersion": {"inforom_image=G1", "firmware_info inforom G1", 10 * time.Minute},
		"nvmlDeviceGetPersistenceMode":     {"persistence=0", "mode_info persistence disabled", 10 * time.Minute},
		"nvmlDeviceGetComputeMode":         {"compute=0", "mode_info compute default", 10 * time.Minute},
		"nvmlDeviceValidateInforom":        {"inforom=1", "inforom_valid", day},
	} {
		t.Run(call, func(t *testing.T) {
			other := map[bool]string{true: "gsp=1.2.3", false: "persistence=1"}[call == "nvmlDeviceGetPersistenceMode"]
			r := newDetailReader(t, tt.field, other)
			before := r.read(0)
			r.fault(r.uuid(), call, "fail:999")
			r.clock.Advance(tt.due)
			failing := r.read(10 * time.Second)
			if _, ok := failing[tt.metric]; ok || len(failing) != len(before)-1 {
				t.Errorf("while %s fails: %v, before: %v", call, failing, before)
			}
			r.report(tt.field, other)
			r.clock.Advance(tt.due)
			r.want(10*time.Second, before)
		})
	}
}

// TestDetailIntervals checks the intervals of calls over two days with a driver reload and the loss of a GPU. These
// events must not cause another check of the InfoROM, because a check reads flash memory.
func TestDetailIntervals(t *testing.T) {
	r := newDetailReader(t, "margin=20", "persistence=1", "inforom=1")
	r.read(0)
	for range 6 {
		r.read(10 * time.Second)
	}
	wantCalls := func(when string, want map[string]int) {
		t.Helper()
		for call, n := range want {
			if got := r.calls(call); got != n {
				t.Errorf("%s: %d calls of %s, want %d", when, got, call, n)
			}
		}
	}
	wantCalls("after a minute", map[string]int{"nvmlDeviceGetMarginTemperature": 7, "nvmlDeviceGetPersistenceMode": 1, "nvmlDeviceValidateInforom": 1})
	r.read(9 * time.Minute)
	wantCalls("after ten minutes", map[string]int{"nvmlDeviceGetMarginTemperature": 8, "nvmlDeviceGetPersistenceMode": 2, "nvmlDeviceValidateInforom": 1})

	again := func(report gpu.Report, err error) bool {
		r.clock.Advance(10 * time.Second)
		return err == nil && len(report.Readings) == 1
	}
	r.node.Loads++
	r.write()
	gputest.Eventually(t, r.s, "the driver is open again", again)
	r.node.GPUs[0].Lost = true
	r.write()
	gputest.Eventually(t, r.s, "the GPU is lost", func(report gpu.Report, _ error) bool { return len(report.Devices) == 0 })
	r.node.GPUs[0].Lost = false
	r.write()
	gputest.Eventually(t, r.s, "the GPU returns", again)
	wantCalls("later on this day", map[string]int{"nvmlDeviceValidateInforom": 1})
	if v, ok := r.read(0)["inforom_valid"]; !ok || v != 1 {
		t.Errorf("the InfoROM is valid: %v, %v", v, ok)
	}
	r.read(24 * time.Hour)
	wantCalls("on the next day", map[string]int{"nvmlDeviceValidateInforom": 2})
}

func TestDetailsOff(t *testing.T) {
	for name, plain := range map[string]bool{"on": false, "off": true} {
		t.Run(name, func(t *testing.T) {
			d, clock := newDriver(t, eight()), gputest.NewClock()
			d.plain, d.system = plain, "\tcc=0"
			for _, g := range d.node.GPUs {
				d.lines = append(d.lines, "health\tgpu="+g.Device.UUID+"\tfans=1\tfan0=50\tfield170=1\tfield171=1\tclock_reasons=1\tmargin=20")
			}
			d.write()
			s := d.open(clock.Now)
			for range 3 {
				for _, r := range gputest.Read(t, s).Readings {
					if (r.Details == nil) != plain {
						t.Errorf("details: %v", r.Details)
					}
				}
				clock.Advance(11 * time.Minute)
			}
			for _, function := range detailFunctions {
				if called := d.calls(function) > 0; called == plain {
					t.Errorf("%s was called: %v", function, called)
				}
			}
		})
	}
}

var detailFunctions = []string{
	"nvmlDeviceGetMarginTemperature", "nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetNumFans", "nvmlDeviceGetFanSpeed", "nvmlDeviceGetSupportedClocksEventReasons",
	"nvmlDeviceGetGspFirmwareVersion", "nvmlDeviceGetInforomImageVersion", "nvmlDeviceValidateInforom", "nvmlDeviceGetPersistenceMode", "nvmlDeviceGetComputeMode",
	"nvmlSystemGetConfComputeState",
}
