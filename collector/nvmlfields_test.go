package collector_test

import (
	_ "embed"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// defaultCounters is etc/default-counters.csv of NVIDIA/dcgm-exporter at commit d5e5f510a1b6 (after release 4.8.2).
//
//go:embed testdata/dcgm-exporter/default-counters.csv
var defaultCounters string

// TestDCGMFields compares the table with dcgm-exporter's file: names, types, help, and which fields are enabled. The
// file has some names twice: the enabled row counts.
func TestDCGMFields(t *testing.T) {
	want := make(map[string]collector.DCGMField)
	row := regexp.MustCompile(`(?m)^(# )?(DCGM_\w+) *, *(\w+), *(.+)$`)
	for _, m := range row.FindAllStringSubmatch(defaultCounters, -1) {
		if enabled := m[1] == ""; enabled || !want[m[2]].Default {
			want[m[2]] = collector.DCGMField{Name: m[2], Type: collector.FieldType(m[3]), Help: m[4], Default: enabled}
		}
	}
	if len(want) < 60 {
		t.Fatalf("only %d rows in the file", len(want))
	}
	// The profiling fields 1011 and 1012 are not in the file (dcgm_fields.h).
	others := []string{"DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"}
	got := make(map[string]collector.DCGMField)
	for _, f := range collector.DCGMFields {
		if _, twice := got[f.Name]; twice {
			t.Errorf("%s twice", f.Name)
		}
		if (f.NVML == "") == (f.Why == "") {
			t.Errorf("%s: must have either an origin or a reason", f.Name)
		}
		if s := new(collector.FieldSelection); s.Add(f.Name, f.Help, f.Type) != (f.NVML != "") {
			t.Errorf("%s: origin %q, but it can be selected: %v", f.Name, f.NVML, f.NVML == "")
		}
		got[f.Name] = collector.DCGMField{Name: f.Name, Type: f.Type, Help: f.Help, Default: f.Default}
	}
	for _, name := range others {
		if _, ok := got[name]; !ok {
			t.Errorf("no row of %s", name)
		}
		delete(got, name)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b collector.DCGMField) bool {
		return a.Name == b.Name && a.Type == b.Type && a.Help == b.Help && a.Default == b.Default
	})); diff != "" {
		t.Errorf("fields (-file +table):\n%s", diff)
	}
}

// nvmlNode returns a node with a GPU whose driver reports everything, a GPU that does not respond, and an AMD GPU.
func nvmlNode() *gpu.Snapshot {
	s := crowd(3, 1, 0)
	s.Drivers = []gpu.Driver{{Vendor: "AMD", Version: "6.12.0"}, {Vendor: "NVIDIA", Name: "nvml", Version: "570.86.15"}}
	for i := range s.GPUs {
		s.GPUs[i].Vendor, s.GPUs[i].ReportsEvents, s.GPUs[i].Events = "NVIDIA", true, gpu.DriverEvents{}
	}
	g := &s.GPUs[0]
	g.EnergySource = gpu.EnergyCounter
	g.Events.Last = map[uint64]time.Time{79: time.Unix(1000, 0), 48: time.Unix(2000, 0)}
	g.Reading = &gpu.Reading{
		Energy: new(gpu.Millijoules(123_456_789)), NVLinkRate: new(5.5 * 1024 * 1000),
		Gauges: gpu.Gauges{
			gpu.Power: new(512.345), gpu.Temperature: new(61.0), gpu.Utilization: new(0.29), gpu.SMClock: new(1.98e9), gpu.MemoryClock: new(2.619e9),
			gpu.MemoryUsed: new(3.0*(1<<20) + 5), gpu.MemoryReserved: new(2.0 * (1 << 20)), gpu.MemoryTotal: new(16.0 * (1 << 20)),
		},
		RowRemap: &gpu.RowRemap{Correctable: 3, Uncorrectable: 4, Failed: true},
		Health: []gpu.HealthValue{
			{Metric: gpu.MemoryTemperature, Value: 70},
			{Metric: gpu.PCIeErrors, Labels: []string{"replay"}, Value: 6},
			{Metric: gpu.PCIeErrors, Labels: []string{"lane"}, Value: 7},
			{Metric: gpu.MemoryUtilization, Value: 0.57},
			{Metric: gpu.EncoderUtilization, Value: 0.07},
			{Metric: gpu.DecoderUtilization, Value: 0.08},
			{Metric: gpu.ClockLimitedTime, Labels: []string{"power_cap"}, Value: 1.000000001},
		},
	}
	s.GPUs[1].Reading = nil
	s.GPUs[2].Vendor = "AMD"
	return s
}

// valuesOf returns the values of a page by metric, one for each GPU that has one.
func valuesOf(families []*dto.MetricFamily) map[string][]float64 {
	values := make(map[string][]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] = append(values[f.GetName()], m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return values
}

// TestNVMLFields checks each default field in DCGM's unit, and that unknown values and AMD GPUs are absent.
func TestNVMLFields(t *testing.T) {
	s := nvmlNode()
	c := collector.NewNVMLFields(func() *gpu.Snapshot { return s }, collector.Hostname, collector.DefaultSelection())
	want := map[string][]float64{
		"DCGM_FI_DEV_SM_CLOCK": {1980}, "DCGM_FI_DEV_MEM_CLOCK": {2619}, "DCGM_FI_DEV_MEMORY_TEMP": {70}, "DCGM_FI_DEV_GPU_TEMP": {61},
		"DCGM_FI_DEV_POWER_USAGE": {512.345}, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {123456789}, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": {6},
		"DCGM_FI_DEV_GPU_UTIL": {29}, "DCGM_FI_DEV_MEM_COPY_UTIL": {57}, "DCGM_FI_DEV_ENC_UTIL": {7}, "DCGM_FI_DEV_DEC_UTIL": {8},
		"DCGM_FI_DEV_XID_ERRORS": {48, 0},
		"DCGM_FI_DEV_FB_FREE":    {10}, "DCGM_FI_DEV_FB_USED": {3}, "DCGM_FI_DEV_FB_RESERVED": {2},
		"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL": {5}, "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS": {4},
		"DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS": {3}, "DCGM_FI_DEV_ROW_REMAP_FAILURE": {1},
	}
	families, done, _ := c.Gather()
	done()
	if diff := cmp.Diff(want, valuesOf(families)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	for _, l := range families[0].Metric[0].Label {
		if l.GetName() == "DCGM_FI_DRIVER_VERSION" && l.GetValue() != "570.86.15" {
			t.Errorf("driver version %q", l.GetValue())
		}
	}
	labels := families[0].Metric[0].String()
	for _, name := range []string{"UUID", "gpu", "pci_bus_id", "device", "modelName", "Hostname", "DCGM_FI_DRIVER_VERSION", "namespace", "pod", "container"} {
		if !strings.Contains(labels, `name:"`+name+`"`) {
			t.Errorf("no label %s in %s", name, labels)
		}
	}
}

// TestNVMLFieldsChosen checks that a file selects fields, and that an energy which DCGM does not have is absent.
func TestNVMLFieldsChosen(t *testing.T) {
	s := nvmlNode()
	s.GPUs[0].EnergySource = gpu.EnergyPower
	var chosen collector.FieldSelection
	for name, want := range map[string]bool{
		"DCGM_FI_DEV_POWER_VIOLATION": true, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": true, "DCGM_FI_DEV_XID_ERRORS": true,
		"DCGM_FI_DEV_VGPU_LICENSE_STATUS": false, "DCGM_FI_DEV_NOTHING": false, "DCGM_FI_DEV_SERIAL": false,
	} {
		if got := chosen.Add(name, "A field.", collector.FieldCounter); got != want {
			t.Errorf("%s: added %v", name, got)
		}
	}
	c := collector.NewNVMLFields(func() *gpu.Snapshot { return s }, collector.Hostname, chosen)
	families, done, _ := c.Gather()
	done()
	want := map[string][]float64{"DCGM_FI_DEV_POWER_VIOLATION": {1_000_000_001}, "DCGM_FI_DEV_XID_ERRORS": {48, 0}}
	if diff := cmp.Diff(want, valuesOf(families)); diff != "" {
		t.Errorf("page (-want +got):\n%s", diff)
	}
	first := c.Revision()
	if c.Revision() != first {
		t.Error("another revision of the same snapshot")
	}
	s = nvmlNode()
	if c.Revision() == first {
		t.Error("the same revision of another snapshot")
	}
}
