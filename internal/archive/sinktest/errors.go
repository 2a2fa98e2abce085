package sinktest

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestErrors checks that each error of boards has its own column. An unknown number must be stored as an empty string
// and not as 0.
func TestErrors(t *testing.T, open func(t *testing.T) (Renamer, Rows)) {
	s, rows := open(t)
	h := Hour(Noon, 7)
	h.GPUs = []table.GPU{
		{
			Node: "a", UUID: "GPU-1", DRAMCorrectable: new(int64(1)), DRAMUncorrectable: new(int64(0)), SRAMCorrectable: new(int64(3)), SRAMUncorrectable: new(int64(1 << 53)),
			LifetimeUncorrectable: new(int64(5)), RetiredPages: new(int64(6)), LowMemoryBanks: new(int64(7)), PCIeReplays: new(int64(8)), NVLinkErrors: new(int64(9)),
			Thermal: new(int64(10)), PowerBrake: new(int64(11)), RecoveryAction: "reset",
		},
		{Node: "a", UUID: "GPU-2"},
	}
	check(t, s.Replace(t.Context(), Complete(h)))
	want := map[string][]string{
		"dram_correctable": {"1", ""}, "dram_uncorrectable": {"0", ""}, "sram_correctable": {"3", ""}, "sram_uncorrectable": {"9007199254740992", ""},
		"lifetime_uncorrectable": {"5", ""}, "retired_pages": {"6", ""}, "low_memory_banks": {"7", ""}, "pcie_replays": {"8", ""}, "nvlink_errors": {"9", ""},
		"thermal_ms": {"10", ""}, "power_brake_ms": {"11", ""}, "recovery_action": {"reset", ""},
	}
	got := make(map[string][]string)
	for _, row := range sorted(rows(table.GPUHours)) {
		for i, name := range table.GPUHours.Names() {
			if want[name] != nil {
				got[name] = append(got[name], row[i])
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
