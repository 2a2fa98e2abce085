package collector_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// upstreamFields contains the fields in etc/default-counters.csv of NVIDIA/dcgm-exporter 4.8.2 by type: enabled fields,
// and fields that are commented out.
var upstreamFields = map[collector.FieldType]struct{ enabled, disabled string }{
	collector.FieldGauge: {enabled: `
FI_DEV_SM_CLOCK FI_DEV_MEM_CLOCK FI_DEV_MEMORY_TEMP FI_DEV_GPU_TEMP FI_DEV_POWER_USAGE FI_PROF_PCIE_TX_BYTES
FI_PROF_PCIE_RX_BYTES FI_DEV_GPU_UTIL FI_DEV_MEM_COPY_UTIL FI_DEV_ENC_UTIL FI_DEV_DEC_UTIL FI_DEV_XID_ERRORS
FI_DEV_FB_FREE FI_DEV_FB_USED FI_DEV_FB_RESERVED FI_DEV_VGPU_LICENSE_STATUS FI_DEV_ROW_REMAP_FAILURE
FI_PROF_GR_ENGINE_ACTIVE FI_PROF_PIPE_TENSOR_ACTIVE FI_PROF_DRAM_ACTIVE`, disabled: `
FI_PROF_SM_ACTIVE FI_PROF_SM_OCCUPANCY FI_PROF_PIPE_FP64_ACTIVE FI_PROF_PIPE_FP32_ACTIVE
FI_PROF_PIPE_FP16_ACTIVE`},
	collector.FieldCounter: {enabled: `
FI_DEV_TOTAL_ENERGY_CONSUMPTION FI_DEV_PCIE_REPLAY_COUNTER FI_DEV_NVLINK_BANDWIDTH_TOTAL
FI_DEV_UNCORRECTABLE_REMAPPED_ROWS FI_DEV_CORRECTABLE_REMAPPED_ROWS`, disabled: `
FI_DEV_POWER_VIOLATION FI_DEV_THERMAL_VIOLATION FI_DEV_SYNC_BOOST_VIOLATION FI_DEV_BOARD_LIMIT_VIOLATION
FI_DEV_LOW_UTIL_VIOLATION FI_DEV_RELIABILITY_VIOLATION EXP_CLOCK_EVENTS_COUNT EXP_XID_ERRORS_COUNT
EXP_GPU_HEALTH_STATUS EXP_P2P_STATUS FI_DEV_ECC_SBE_VOL_TOTAL FI_DEV_ECC_DBE_VOL_TOTAL
FI_DEV_ECC_SBE_AGG_TOTAL FI_DEV_ECC_DBE_AGG_TOTAL FI_DEV_RETIRED_SBE FI_DEV_RETIRED_DBE FI_DEV_RETIRED_PENDING
FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL
FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL FI_DEV_NVLINK_BANDWIDTH_L0`},
	collector.FieldLabel: {enabled: `
FI_DRIVER_VERSION`, disabled: `
FI_NVML_VERSION FI_DEV_BRAND FI_DEV_SERIAL FI_DEV_OEM_INFOROM_VER FI_DEV_ECC_INFOROM_VER
FI_DEV_POWER_INFOROM_VER FI_DEV_INFOROM_IMAGE_VER FI_DEV_VBIOS_VERSION`},
}

// TestDCGMFields compares the names, the types and the enabled fields in the table with dcgm-exporter's file. If a name
// is in the file twice, the enabled row counts.
func TestDCGMFields(t *testing.T) {
	want := make(map[string]collector.DCGMField)
	for kind, names := range upstreamFields {
		for name := range strings.FieldsSeq(names.enabled) {
			want["DCGM_"+name] = collector.DCGMField{Name: "DCGM_" + name, Type: kind, Default: true}
		}
		for name := range strings.FieldsSeq(names.disabled) {
			want["DCGM_"+name] = collector.DCGMField{Name: "DCGM_" + name, Type: kind}
		}
	}
	// The profiling fields 1011 and 1012 are not in the file. They are from dcgm_fields.h.
	others := []string{"DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES"}
	got := make(map[string]collector.DCGMField)
	for _, f := range collector.DCGMFields {
		if _, twice := got[f.Name]; twice {
			t.Errorf("%s twice", f.Name)
		}
		if (f.NVML == "") == (f.Why == "") {
			t.Errorf("%s: either NVML or Why must be set", f.Name)
		}
		if s := new(collector.FieldSelection); s.Add(f.Name, f.Help, f.Type) != (f.NVML != "") {
			t.Errorf("%s: NVML is %q, but the field can be selected: %v", f.Name, f.NVML, f.NVML == "")
		}
		got[f.Name] = collector.DCGMField{Name: f.Name, Type: f.Type, Default: f.Default}
	}
	for _, name := range others {
		if _, ok := got[name]; !ok {
			t.Errorf("no row for %s", name)
		}
		delete(got, name)
	}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b collector.DCGMField) bool {
		return a.Name == b.Name && a.Type == b.Type && a.Default == b.Default
	})); diff != "" {
		t.Errorf("fields (-upstream +table):\n%s", diff)
	}
}

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
	g.Reading.Details = []gpu.HealthValue{
		{Metric: gpu.FirmwareVersions, Labels: []string{"gsp", "570.86.15"}}, {Metric: gpu.FirmwareVersions, Labels: []string{"inforom", "G520.0200.00.05"}},
	}
	g.Reading.Profile = profile()
	s.GPUs[1].Reading = nil
	s.GPUs[2].Vendor = "AMD"
	return s
}

func valuesOf(families []*dto.MetricFamily) map[string][]float64 {
	values := make(map[string][]float64)
	for _, f := range families {
		for _, m := range f.Metric {
			values[f.GetName()] = append(values[f.GetName()], m.GetCounter().GetValue()+m.GetGauge().GetValue())
		}
	}
	return values
}

// TestNVMLFields checks that each default field has a value in DCGM's unit, and that unknown values and AMD GPUs are
// absent.
func TestNVMLFields(t *testing.T) {
	s := nvmlNode()
	c := collector.NewNVMLFields(func() *gpu.Snapshot { return s }, collector.Hostname, collector.DefaultSelection())
	want := map[string][]float64{
		"DCGM_FI_DEV_SM_CLOCK": {1980}, "DCGM_FI_DEV_MEM_CLOCK": {2619}, "DCGM_FI_DEV_MEMORY_TEMP": {70}, "DCGM_FI_DEV_GPU_TEMP": {61},
		"DCGM_FI_DEV_POWER_USAGE": {512.345}, "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION": {123456789}, "DCGM_FI_DEV_PCIE_REPLAY_COUNTER": {6},
		"DCGM_FI_DEV_GPU_UTIL": {29}, "DCGM_FI_DEV_MEM_COPY_UTIL": {57}, "DCGM_FI_DEV_ENC_UTIL": {7}, "DCGM_FI_DEV_DEC_UTIL": {8},
		"DCGM_FI_PROF_GR_ENGINE_ACTIVE": {0.5}, "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE": {3.5}, "DCGM_FI_PROF_DRAM_ACTIVE": {4.5},
		"DCGM_FI_PROF_PCIE_TX_BYTES": {11}, "DCGM_FI_PROF_PCIE_RX_BYTES": {12},
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

// TestNVMLFirmware checks the label with the version of the InfoROM image. The label must be empty while the GPU does
// not respond.
func TestNVMLFirmware(t *testing.T) {
	var selected collector.FieldSelection
	if !selected.Add("DCGM_FI_DEV_INFOROM_IMAGE_VER", "", collector.FieldLabel) || !selected.Add("DCGM_FI_DEV_XID_ERRORS", "An error.", collector.FieldGauge) {
		t.Fatal("the fields cannot be selected")
	}
	c := collector.NewNVMLFields(nvmlNode, collector.Hostname, selected)
	families, done, _ := c.Gather()
	done()
	versions := make(map[string]string)
	for _, m := range families[0].Metric {
		uuid, version := "", ""
		for _, l := range m.Label {
			switch l.GetName() {
			case "UUID":
				uuid = l.GetValue()
			case "DCGM_FI_DEV_INFOROM_IMAGE_VER":
				version = l.GetValue()
			}
		}
		versions[uuid] = version
	}
	gpus := nvmlNode().GPUs
	if diff := cmp.Diff(map[string]string{gpus[0].UUID: "G520.0200.00.05", gpus[1].UUID: ""}, versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
}

// TestNVMLFieldsChosen checks fields that a file selects. Energy that DCGM would not report must be absent.
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
