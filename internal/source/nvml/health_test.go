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

// healthValues contains values of the driver with the expected metrics. The numbers of the fields are copied from
// nvml.h (NVML_FI_DEV_*), not from a Go binding.
var healthValues = map[string]struct {
	driver uint64
	metric string
	value  float64
}{
	"field1": {1, "ecc_enabled", 1},
	"field2": {0, "ecc_enabled_pending", 0},

	"field11":                    {12, "ecc_errors_total dram correctable", 12},
	"field12":                    {13, "ecc_errors_total dram uncorrectable", 13},
	"sram_volatile_corrected":    {14, "ecc_errors_total sram correctable", 14},
	"sram_volatile_uncorrected":  {15, "ecc_errors_total sram uncorrectable", 15},
	"field22":                    {16, "ecc_lifetime_errors dram correctable", 16},
	"field23":                    {17, "ecc_lifetime_errors dram uncorrectable", 17},
	"sram_aggregate_corrected":   {18, "ecc_lifetime_errors sram correctable", 18},
	"sram_aggregate_uncorrected": {1 << 40, "ecc_lifetime_errors sram uncorrectable", 1 << 40},
	"sram_threshold":             {1, "sram_ecc_threshold_exceeded", 1},

	"field29":       {3, "retired_pages correctable", 3},
	"field30":       {4, "retired_pages uncorrectable", 4},
	"field31":       {1, "retired_pages_pending", 1},
	"banks_max":     {600, "memory_banks max", 600},
	"banks_high":    {30, "memory_banks high", 30},
	"banks_partial": {7, "memory_banks partial", 7},
	"banks_low":     {2, "memory_banks low", 2},
	"banks_none":    {1, "memory_banks none", 1},

	"field94":             {101, "pcie_errors_total replay", 101},
	"field169":            {102, "pcie_errors_total link_recovery", 102},
	"field173":            {103, "pcie_errors_total correctable", 103},
	"field174":            {104, "pcie_errors_total nak_received", 104},
	"field175":            {105, "pcie_errors_total receiver", 105},
	"field176":            {106, "pcie_errors_total bad_tlp", 106},
	"field177":            {107, "pcie_errors_total nak_sent", 107},
	"field178":            {108, "pcie_errors_total bad_dllp", 108},
	"field179":            {109, "pcie_errors_total non_fatal", 109},
	"field180":            {110, "pcie_errors_total fatal", 110},
	"field181":            {111, "pcie_errors_total unsupported_request", 111},
	"field182":            {112, "pcie_errors_total lcrc", 112},
	"field183":            {113, "pcie_errors_total lane", 113},
	"field197":            {1 << 41, "pcie_bytes_total transmitted", 1 << 41},
	"field198":            {1 << 42, "pcie_bytes_total received", 1 << 42},
	"pcie_generation":     {1, "pcie_link_generation", 1},
	"pcie_generation_max": {5, "pcie_link_generation_max", 5},
	"pcie_width":          {8, "pcie_link_width", 8},
	"pcie_width_max":      {16, "pcie_link_width_max", 16},

	"field38":      {201, "nvlink_errors_total crc_flit", 201},
	"field45":      {202, "nvlink_errors_total crc_data", 202},
	"field52":      {203, "nvlink_errors_total replay", 203},
	"field59":      {204, "nvlink_errors_total recovery", 204},
	"field138.all": {5, "nvlink_bytes_total transmitted", 5 * 1024},
	"field139.all": {6, "nvlink_bytes_total received", 6 * 1024},

	"field74":  {1_500_000_000, "clock_limited_seconds_total power_cap", 1.5},
	"field76":  {2_500_000_000, "clock_limited_seconds_total sync_boost", 2.5},
	"field77":  {3_500_000_000, "clock_limited_seconds_total board_limit", 3.5},
	"field78":  {4_500_000_000, "clock_limited_seconds_total low_utilization", 4.5},
	"field79":  {5_500_000_000, "clock_limited_seconds_total reliability", 5.5},
	"field269": {8_500_000_000, "clock_limited_seconds_total software_thermal", 8.5},
	"field270": {9_500_000_000, "clock_limited_seconds_total hardware_thermal", 9.5},
	"field271": {10_500_000_000, "clock_limited_seconds_total power_brake", 10.5},
	"field82":  {76, "memory_temperature_celsius", 76},
	"field188": {700_000, "power_limit_watts max", 700},
	"field189": {700_500, "power_limit_watts default", 700.5},
	"field190": {600_000, "power_limit_watts enforced", 600},
	"pstate":   {2, "performance_state", 2},
	"encoder":  {7, "encoder_utilization_ratio", 0.07},
	"decoder":  {100, "decoder_utilization_ratio", 1},
}

type aHealthReader struct {
	*driver
	clock *gputest.Clock
	node  gputest.Node
	s     *nvml.Source
	rate  *float64 // NVLink rate at the last reading
	links gpu.Counts
}

func newHealthReader(t *testing.T) *aHealthReader {
	clock, node := gputest.NewClock(), pair()
	node.GPUs[0].Reading.Gauges[gpu.Utilization] = nil // the call for utilisation returns two values, so it is made unsupported
	return &aHealthReader{newDriver(t, node), clock, node, nil, nil, nil}
}

// read returns the values by metric and labels.
func (r *aHealthReader) read(fields ...string) map[string]float64 {
	r.t.Helper()
	r.lines = slices.DeleteFunc(r.lines, func(line string) bool { return strings.HasPrefix(line, "health\t") })
	slices.Sort(fields) // so that the numbers of banks are in one record
	for some := range slices.Chunk(fields, 50) {
		r.lines = append(r.lines, "health\tgpu="+r.node.GPUs[0].Device.UUID+"\t"+strings.Join(some, "\t"))
	}
	r.write()
	if r.s == nil {
		r.s = r.open(r.clock.Now)
	}
	r.clock.Advance(11 * time.Second)
	found := make(map[string]float64)
	for _, reading := range gputest.Read(r.t, r.s).Readings {
		if reading.UUID != r.node.GPUs[0].Device.UUID {
			continue
		}
		r.rate = reading.NVLinkRate
		r.links = r.links.Plus(reading.Counters)
		values := slices.Clone(reading.Health)
		for _, total := range r.links.Totals(reading.Counters) {
			values = gpu.AddHealth(values, total)
		}
		for _, v := range values {
			key := strings.Join(append([]string{gpu.HealthInfos[v.Metric].Name}, v.Labels...), " ")
			if _, twice := found[key]; twice {
				r.t.Errorf("%s twice", key)
			}
			found[key] = v.Value
		}
	}
	return found
}

func (r *aHealthReader) want(want map[string]float64, fields ...string) {
	r.t.Helper()
	if diff := cmp.Diff(want, r.read(fields...)); diff != "" {
		r.t.Errorf("%v: -want +got:\n%s", fields, diff)
	}
}

// TestHealthValues reads all values together, and each value alone. Values that a GPU does not report must be missing.
func TestHealthValues(t *testing.T) {
	r := newHealthReader(t)
	var all []string
	want := make(map[string]float64)
	for key, v := range healthValues {
		all = append(all, fmt.Sprintf("%s=%d", key, v.driver))
		want[v.metric] = v.value
	}
	r.want(want, all...)
	for key, v := range healthValues {
		alone := map[string]float64{v.metric: v.value}
		if key == "banks_max" {
			for _, none := range []string{"high", "partial", "low", "none"} {
				alone["memory_banks "+none] = 0
			}
		}
		if strings.HasPrefix(key, "banks_") && key != "banks_max" {
			continue // this value comes from the same call as banks_max
		}
		r.clock.Advance(11 * time.Minute) // unsupported values are requested again after this time
		r.want(alone, fmt.Sprintf("%s=%d", key, v.driver))
	}
	seen := make(map[string]bool)
	for name := range maps.Keys(want) {
		seen[strings.Fields(name)[0]] = true
	}
	for _, info := range gpu.HealthInfos {
		if !seen[info.Name] && !info.Detail && info.Name != "nvlink_links" && info.Name != "memory_utilization_ratio" { // TestNVLink5, TestMemoryUtilization
			t.Errorf("this test contains no value of %s", info.Name)
		}
	}
}

func TestNVLink5(t *testing.T) {
	r := newHealthReader(t)
	r.want(map[string]float64{
		"nvlink_errors_total malformed_packet": 3, "nvlink_errors_total symbol": 1_000_000_000_007, "nvlink_errors_total recovery_failed": 2,
		"nvlink_links active": 2, "nvlink_links inactive": 1, "nvlink_links sleep": 1, "nvlink_links traffic_disabled": 1,
	}, "field206=1", "field206.17=2", "field221.1=7", "field221.2=1000000000000", "field214.35=2",
		"field165=1", "field165.1=0", "field165.2=2", "field165.3=1", "field165.17=3", "field165.18=4")
}

// The call for utilisation returns two values. A number above 100 % must be rejected.
func TestMemoryUtilization(t *testing.T) {
	r := newHealthReader(t)
	r.node.GPUs[0].Reading.Gauges[gpu.Utilization] = new(0.5)
	for driver, want := range map[string]map[string]float64{"0": {"memory_utilization_ratio": 0}, "57": {"memory_utilization_ratio": 0.57}, "101": {}} {
		r.fields[r.node.GPUs[0].Device.UUID] = "memory_utilization=" + driver
		r.want(want)
	}
}

// The rate over all links must be unknown until the second reading, and in the first reading after the counters have
// restarted. The readings are eleven seconds apart. The counters are in KiB (nvml.h).
func TestNVLinkRate(t *testing.T) {
	r := newHealthReader(t)
	for i, tt := range []struct {
		fields []string
		want   *float64
	}{
		{[]string{"field138.all=1000", "field139.all=2000"}, nil},
		{[]string{"field138.all=1110", "field139.all=2220"}, new(30.0 * 1024)},
		{[]string{"field138.all=1110", "field139.all=2220"}, new(0.0)},
		{[]string{"field138.all=11", "field139.all=0"}, nil},
		{[]string{"field138.all=22", "field139.all=0"}, new(1024.0)},
		{[]string{"field138.all=33"}, nil},
	} {
		r.read(tt.fields...)
		if diff := cmp.Diff(tt.want, r.rate); diff != "" {
			t.Errorf("reading %d (-want +got):\n%s", i, diff)
		}
	}
}

// The sum of the counters must increase only because of new errors. It must not change while a link is not reported,
// when the link is reported again, or when the counter of the link restarts.
func TestNVLinkFails(t *testing.T) {
	r := newHealthReader(t)
	want := func(symbol float64, fields ...string) {
		t.Helper()
		r.want(map[string]float64{"nvlink_errors_total symbol": symbol}, fields...)
	}
	want(1_000_007, "field221=7", "field221.1=1000000")
	want(1_000_008, "field221=8")
	r.clock.Advance(reaskAfter)
	want(1_000_009, "field221=9")
	r.clock.Advance(reaskAfter)
	want(1_000_012, "field221=9", "field221.1=1000003")
	want(1_000_017, "field221=9", "field221.1=5")
	want(1_000_017) // no link is reported
	r.clock.Advance(reaskAfter)
	want(1_000_017)
	r.clock.Advance(reaskAfter)
	want(1_000_018, "field221=10", "field221.1=5")
}

// Each tick must read the health of at most one of eight GPUs. The health of each GPU must be read every ten seconds.
func TestHealthSpread(t *testing.T) {
	const call = "nvmlDeviceGetRowRemapperHistogram"
	var node gputest.Node
	for i := range 8 {
		node.GPUs = append(node.GPUs, gputest.Full(i))
	}
	d, clock := newDriver(t, node), gputest.NewClock()
	for _, g := range node.GPUs {
		d.lines = append(d.lines, "health\tgpu="+g.Device.UUID+"\tbanks_max=1")
	}
	d.write()
	s := d.open(clock.Now)
	gputest.Read(t, s)
	if n := d.calls(call); n != 8 {
		t.Fatalf("the first reading has the health of %d GPUs", n)
	}
	for second := range 10 { // the first pause before a GPU is read again is shorter
		clock.Advance(time.Second)
		before := d.calls(call)
		gputest.Read(t, s)
		if n := d.calls(call) - before; n > 1 {
			t.Errorf("second %d: the health of %d GPUs", second, n)
		}
	}
	before := d.log()
	for range 10 {
		clock.Advance(time.Second)
		gputest.Read(t, s)
	}
	for _, g := range node.GPUs {
		if n := strings.Count(strings.TrimPrefix(d.log(), before), call+"\t"+g.Device.UUID); n != 1 {
			t.Errorf("the health of %s was read %d times in ten seconds", g.Device.UUID, n)
		}
	}
}

// Numbers that stand for "no value" must not be reported.
func TestHealthAbsent(t *testing.T) {
	r := newHealthReader(t)
	r.want(map[string]float64{}, "field1=off", "field11=off", "field30=off")
	r.clock.Advance(11 * time.Minute)
	r.want(map[string]float64{}, "field82=0", "field94=18446744073709551615", "pstate=32", "pcie_width=0", "pcie_generation_max=4294967295")
	r.want(map[string]float64{"pcie_errors_total replay": 5}, "field94=5")
	uuid := r.node.GPUs[0].Device.UUID
	r.fault(uuid, "nvmlDeviceGetFieldValues", "fail:999")
	r.want(map[string]float64{}, "field94=6")
	r.healed()
	r.want(map[string]float64{"pcie_errors_total replay": 7}, "field94=7")
	r.want(map[string]float64{"pcie_errors_total replay": 2}, "field94=2") // the driver was reloaded, so a counter may decrease
}

func (d *driver) callsOf(uuid string, run func()) map[string]int {
	before := len(d.log())
	run()
	calls := make(map[string]int)
	for line := range strings.Lines(d.log()[before:]) {
		if fields := strings.Split(line, "\t"); fields[2] == uuid {
			calls[fields[1]]++
		}
	}
	return calls
}

// TestHealthCalls checks which calls a tick makes only because it reads health. On a GPU with all values, there is one
// call for all fields, and one call for each value without a field. The highest link speed and the utilisation of the
// memory need no additional call. The recovery action, the fabric and the power samples are read at the interval of
// health even if health is disabled.
func TestHealthCalls(t *testing.T) {
	r := newHealthReader(t)
	r.plain = true // details need more calls
	r.node.GPUs[0].Reading.Gauges[gpu.Utilization] = new(0.5)
	var all []string
	for name, v := range healthValues {
		all = append(all, fmt.Sprintf("%s=%d", name, v.driver))
	}
	uuid := r.node.GPUs[0].Device.UUID
	r.read(all...)
	others := map[string]int{"nvmlDeviceGetFieldValues": 1, "nvmlDeviceGetGpuFabricInfoV": 1, "nvmlDeviceGetSamples": 1}
	calls := r.callsOf(uuid, func() { r.read(all...) })
	for _, without := range []map[string]int{others, r.callsOf(uuid, func() { r.clock.Advance(time.Second); gputest.Read(t, r.s) })} {
		for name, n := range without {
			if calls[name] -= n; calls[name] == 0 {
				delete(calls, name)
			}
		}
	}
	want := map[string]int{
		"nvmlDeviceGetFieldValues": 1, "nvmlDeviceGetMemoryErrorCounter": 4, "nvmlDeviceGetSramEccErrorStatus": 1, "nvmlDeviceGetRowRemapperHistogram": 1,
		"nvmlDeviceGetCurrPcieLinkGeneration": 1, "nvmlDeviceGetCurrPcieLinkWidth": 1, "nvmlDeviceGetPerformanceState": 1,
		"nvmlDeviceGetEncoderUtilization": 1, "nvmlDeviceGetDecoderUtilization": 1,
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls of a health read (-want +made):\n%s", diff)
	}
}
