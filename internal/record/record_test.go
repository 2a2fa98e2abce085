package record_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/record"
)

// A lost GPU must have a row in Boards but not in Placements. The row of a pod must contain the sums over its
// containers. An owner without a name and a UID must have no row. If a counter continues an earlier counter, its start
// time must be zero.
func TestNew(t *testing.T) {
	opened := time.Unix(1_800_000_000, 0)
	account := func(pod, part string, mJ gpu.Millijoules) gpu.Account {
		a := gpu.Account{
			Opened: opened.Add(time.Duration(mJ)), Energy: gpu.ByMethod{gpu.Exclusive: 1, gpu.Shared: mJ}, Idle: mJ / 2, Estimated: 4 * mJ,
			Allocated: time.Duration(mJ), Active: time.Duration(2 * mJ), Busy: time.Duration(5 * mJ), GPUTime: time.Duration(3 * mJ),
			Profiled: gpu.Profiled{Time: time.Duration(6 * mJ), Tensor: time.Duration(7 * mJ), DRAM: time.Duration(8 * mJ)},
		}
		a.Owner = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: pod, UID: "uid-" + pod, Part: part}
		return a
	}
	unknown := account("lost", "main", 5)
	unknown.UID = ""
	rows := &gpu.RowRemap{Correctable: 4}
	value := func(m gpu.HealthMetric, v float64, labels ...string) gpu.HealthValue {
		return gpu.HealthValue{Metric: m, Labels: labels, Value: v}
	}
	ecc := []gpu.HealthValue{value(gpu.ECCLifetimeErrors, 1, "dram", "uncorrectable"), value(gpu.ECCLifetimeErrors, 2, "sram", "correctable")}
	others := []gpu.HealthValue{
		value(gpu.ECCErrors, 10, "dram", "uncorrectable"), value(gpu.PCIeErrors, 4, "replay"), value(gpu.PCIeErrors, 11, "correctable"),
		value(gpu.RetiredPages, 3, "correctable"), value(gpu.RetiredPages, 5, "uncorrectable"),
		value(gpu.NVLinkErrors, 20, "crc_flit"), value(gpu.NVLinkErrors, 21, "crc_data"), value(gpu.NVLinkErrors, 22, "replay"), value(gpu.NVLinkErrors, 23, "recovery"),
		value(gpu.MemoryBanks, 640, "max"), value(gpu.MemoryBanks, 7, "low"), value(gpu.MemoryBanks, 2, "none"), value(gpu.ClockLimitedTime, 13, "power_cap"),
	}
	throttled := gpu.ByThrottle{gpu.ThrottleThermal: {Energy: 20, Time: time.Minute}}
	s := &gpu.Snapshot{
		Node: gpu.Node{Name: "n", SystemUUID: "u"},
		GPUs: []gpu.GPU{
			{
				Present: true,
				Device: gpu.Device{
					UUID: "GPU-a", Serial: "1", PCIBusID: "p", Model: "N/A", Platform: gpu.Platform{ChassisSerial: "c", Slot: new(4)},
					EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU,
				},
				Events:  gpu.DriverEvents{Since: opened, Losses: 3, ByCode: map[uint64]uint64{79: 1}},
				Reading: &gpu.Reading{RowRemap: rows, Recovery: "reset", Health: slices.Concat(others, ecc), Throttled: &gpu.ThrottledTimes{gpu.ThrottleThermal: time.Hour}},
				Book: &gpu.Book{
					Throttled: throttled, Opened: opened, Energy: 100, Resets: 2, Uncounted: 8, Estimated: 6, Unattributed: [gpu.NumReasons]gpu.Millijoules{gpu.Gap: 9},
					Accounts: []gpu.Account{account("x", "one", 10), account("x", "two", 20), account("y", "one", 30), unknown},
				},
			},
			{Device: gpu.Device{UUID: "GPU-b"}, Renamed: opened.Add(time.Second), Reading: &gpu.Reading{RowRemap: rows}, Book: &gpu.Book{Opened: opened, Energy: 7}},
			{Present: true, Device: gpu.Device{UUID: "GPU-c"}},
		},
	}
	row := func(pod string, containers, mJ, first gpu.Millijoules) record.Allocation {
		return record.Allocation{
			Node: "n", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", Namespace: "ml", Pod: pod, PodUID: "uid-" + pod,
			Amounts: record.Amounts{
				Energy: mJ + containers, Exclusive: containers, Idle: mJ / 2, Estimated: 4 * mJ,
				Held: time.Duration(mJ), Active: time.Duration(2 * mJ), Busy: time.Duration(5 * mJ), GPUTime: time.Duration(3 * mJ),
				Profiled: gpu.Profiled{Time: time.Duration(6 * mJ), Tensor: time.Duration(7 * mJ), DRAM: time.Duration(8 * mJ)},
				Since:    opened.Add(time.Duration(first)),
			},
		}
	}
	want := record.Rows{
		Placements: []record.Placement{
			{Node: "n", SystemUUID: "u", UUID: "GPU-a", Serial: "1", ChassisSerial: "c", ChassisSlot: new(4), PCIBusID: "p"},
			{Node: "n", SystemUUID: "u", UUID: "GPU-c"},
		},
		Health: []record.Health{
			{
				Node: "n", UUID: "GPU-a", Serial: "1", XIDs: map[uint64]uint64{79: 1}, Losses: 3, Rows: rows, Since: opened,
				ECC: ecc, RetiredPages: new(8.0), PCIeReplays: new(4.0), NVLinkErrors: new(86.0), LowBanks: new(9.0), Recovery: "reset",
				Throttled: [gpu.NumThrottles]*time.Duration{gpu.ThrottleThermal: new(time.Minute), gpu.ThrottlePowerBrake: new(time.Duration)}, Opened: opened,
			},
			{Node: "n", UUID: "GPU-b"},
			{Node: "n", UUID: "GPU-c"},
		},
		Boards: []record.Board{
			{
				Node: "n", UUID: "GPU-a", Serial: "1", Energy: 100, Unattributed: [gpu.NumReasons]gpu.Millijoules{gpu.Gap: 9}, Resets: 2, Uncounted: 8, Estimated: 6,
				Source: gpu.EnergyCounter, Scope: gpu.ScopeGPU, Since: opened,
			},
			{Node: "n", UUID: "GPU-b", Energy: 7},
		},
		Allocations: []record.Allocation{row("x", 2, 30, 10), row("y", 1, 30, 30)},
	}
	if diff := cmp.Diff(want, record.New(s)); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// The record of an AMD GPU must contain the sums of its memory errors in this boot, and the time in which heat limited
// its clocks. It must not contain the driver's own error counts. AMD's driver reports no power brake, and no errors
// over the life of the board.
func TestAMD(t *testing.T) {
	opened := time.Unix(1_800_000_000, 0)
	value := func(m gpu.HealthMetric, v float64, labels ...string) gpu.HealthValue {
		return gpu.HealthValue{Metric: m, Labels: labels, Value: v}
	}
	g := gpu.GPU{
		Present: true, Device: gpu.Device{UUID: "a", Vendor: "AMD"},
		Reading: &gpu.Reading{Throttled: new(gpu.ThrottledTimes), Health: []gpu.HealthValue{value(gpu.ECCErrors, 2, "dram", "uncorrectable"), value(gpu.RetiredPages, 3, "uncorrectable")}},
		Totals:  []gpu.HealthValue{value(gpu.ECCErrors, 7, "dram", "uncorrectable"), value(gpu.NVLinkErrors, 9, "replay"), value(gpu.ECCErrors, 0, "sram", "correctable")},
		Book:    &gpu.Book{Opened: opened, Throttled: gpu.ByThrottle{gpu.ThrottleThermal: {Time: time.Minute}}},
	}
	want := record.Health{
		UUID: "a", RAS: []gpu.HealthValue{value(gpu.ECCErrors, 7, "dram", "uncorrectable"), value(gpu.ECCErrors, 0, "sram", "correctable")},
		RetiredPages: new(3.0), Throttled: [gpu.NumThrottles]*time.Duration{gpu.ThrottleThermal: new(time.Minute)}, Opened: opened,
	}
	if diff := cmp.Diff(want, record.New(&gpu.Snapshot{GPUs: []gpu.GPU{g}}).Health[0]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	g.Reading.Throttled = nil // older firmware reports no throttling
	if h := record.New(&gpu.Snapshot{GPUs: []gpu.GPU{g}}).Health[0]; h.Throttled[gpu.ThrottleThermal] != nil {
		t.Error("a time that the GPU does not report")
	}
}

// If a part of a sum is missing, the counter must be absent. A sum without this part would look like a counter that
// fell. The sum of NVLink errors must contain the error types of the right NVLink generation.
func TestSums(t *testing.T) {
	tests := map[string]struct {
		links []string
		want  *float64
	}{
		"NVLink 4":                       {[]string{"crc_flit", "crc_data", "replay", "recovery"}, new(4.0)},
		"NVLink 4, one value is missing": {[]string{"crc_flit", "replay", "recovery"}, nil},
		"NVLink 5":                       {[]string{"malformed_packet", "receive", "link_integrity", "transmit_discard", "recovery", "recovery_failed", "effective", "symbol"}, new(4.0)},
		"none":                           {nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := &gpu.Reading{Health: []gpu.HealthValue{{Metric: gpu.RetiredPages, Labels: []string{"correctable"}, Value: 1}, {Metric: gpu.MemoryBanks, Labels: []string{"low"}, Value: 1}}}
			for _, kind := range tt.links {
				r.Health = append(r.Health, gpu.HealthValue{Metric: gpu.NVLinkErrors, Labels: []string{kind}, Value: 1})
			}
			h := record.New(&gpu.Snapshot{GPUs: []gpu.GPU{{Present: true, Reading: r}}}).Health[0]
			if diff := cmp.Diff(record.Health{NVLinkErrors: tt.want}, h); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// AMD's driver retires pages only for uncorrectable errors (docs/amd.md). NVIDIA's driver also retires pages for
// correctable errors (nvml.h, NVML_FI_DEV_RETIRED_SBE). If one of these two numbers is missing, the sum must be
// unknown.
func TestRetiredPages(t *testing.T) {
	tests := map[string]struct {
		vendor string
		pages  map[string]float64
		want   *float64
	}{
		"AMD":                          {"AMD", map[string]float64{"uncorrectable": 2}, new(2.0)},
		"AMD, unreadable":              {"AMD", nil, nil},
		"NVIDIA":                       {"NVIDIA", map[string]float64{"correctable": 3, "uncorrectable": 4}, new(7.0)},
		"NVIDIA, one value is missing": {"NVIDIA", map[string]float64{"uncorrectable": 4}, nil},
		"NVIDIA GPU that remaps rows":  {"NVIDIA", nil, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			g := gpu.GPU{Device: gpu.Device{Vendor: tt.vendor}, Present: true, Reading: &gpu.Reading{}}
			for kind, n := range tt.pages {
				g.Reading.Health = append(g.Reading.Health, gpu.HealthValue{Metric: gpu.RetiredPages, Labels: []string{kind}, Value: n})
			}
			if diff := cmp.Diff(tt.want, record.New(&gpu.Snapshot{GPUs: []gpu.GPU{g}}).Health[0].RetiredPages); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}
