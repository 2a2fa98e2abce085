package fold_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

// boardErrors lists the error counters of a board. After the name of the metric, it contains the labels that the
// counter has in addition to the board's labels.
var boardErrors = map[string][]string{
	"dram_correctable":   {"gpuledger_board_ecc_errors_total", "memory", "dram", "error", "correctable"},
	"dram_uncorrectable": {"gpuledger_board_ecc_errors_total", "memory", "dram", "error", "uncorrectable"},
	"sram_correctable":   {"gpuledger_board_ecc_errors_total", "memory", "sram", "error", "correctable"},
	"sram_uncorrectable": {"gpuledger_board_ecc_errors_total", "memory", "sram", "error", "uncorrectable"},
	"retired_pages":      {"gpuledger_board_retired_pages_total"},
	"pcie_replays":       {"gpuledger_board_pcie_replays_total"},
	"nvlink_errors":      {"gpuledger_board_nvlink_errors_total"},
	"thermal_ms":         {"gpuledger_board_thermal_throttled_seconds_total"},
	"power_brake_ms":     {"gpuledger_board_power_brake_throttled_seconds_total"},
	"remapped":           {"gpuledger_board_remapped_rows_total", "error", "uncorrectable"},
}

// errorsOf returns the known errors of the only GPU in an hour, by their names in boardErrors.
func errorsOf(h *table.Hour) map[string]int64 {
	g := h.GPUs[0]
	all := make(map[string]int64)
	for name, n := range map[string]*int64{
		"dram_correctable": g.DRAMCorrectable, "dram_uncorrectable": g.DRAMUncorrectable, "sram_correctable": g.SRAMCorrectable, "sram_uncorrectable": g.SRAMUncorrectable,
		"retired_pages": g.RetiredPages, "pcie_replays": g.PCIeReplays, "nvlink_errors": g.NVLinkErrors, "thermal_ms": g.Thermal, "power_brake_ms": g.PowerBrake,
		"remapped": &g.RemappedUncorrectable,
	} {
		if n != nil {
			all[name] = *n
		}
	}
	return all
}

// TestErrors checks which errors of a board belong to the second hour. The board was scraped before this hour.
func TestErrors(t *testing.T) {
	type sample struct{ minute, value float64 }
	tests := map[string]struct {
		samples []sample
		want    int64
		unknown bool
	}{
		"grows":                        {samples: []sample{{50, 7}, {70, 9}, {110, 12}}, want: 5},
		"stays":                        {samples: []sample{{50, 7}, {70, 7}, {110, 7}}},
		"first value is years old":     {samples: []sample{{80, 4000}, {90, 4001}, {110, 4001}}, want: 1},
		"only value":                   {samples: []sample{{80, 4000}}},
		"cleared by the administrator": {samples: []sample{{50, 7}, {70, 2}, {110, 3}}, want: 3},
		"not in the record":            {unknown: true},
		"ended before the hour":        {samples: []sample{{50, 7}}, unknown: true},
	}
	for name, tt := range tests {
		for counter, labels := range boardErrors {
			t.Run(name+"/"+counter, func(t *testing.T) {
				s := history{foldtest.NewStore()}
				for minute := 50.0; minute <= 110; minute += 10 {
					s.board(minute, minute, -600, "a")
				}
				for _, x := range tt.samples {
					s.Add(at(x.minute), x.value, labels[0], slices.Concat([]string{"node", "a", "UUID", "GPU-1"}, labels[1:])...)
				}
				h, err := hour(s.Store, 1)
				check(t, err)
				want := map[string]int64{"remapped": 0, counter: tt.want}
				if slices.Contains([]string{"thermal_ms", "power_brake_ms"}, counter) {
					want[counter] *= 1000
				}
				if tt.unknown && counter != "remapped" {
					delete(want, counter)
				}
				if diff := cmp.Diff(want, errorsOf(h)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
			})
		}
	}
	for counter, labels := range boardErrors {
		if !slices.Contains(fold.Metrics(), labels[0]) {
			t.Errorf("%s is not read", counter)
		}
	}
}

// TestErrorsOfReboot checks that errors whose counters cover the life of the board are not counted again when the node
// boots. Throttled time begins at 0 after the boot, so all of it must be counted, even if it is longer than before.
func TestErrorsOfReboot(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 110; minute += 10 {
		began, throttled := -600.0, 5.0
		if minute >= 80 {
			began, throttled = 75, 8
		}
		s.board(minute, 100+minute, began, "a")
		for _, labels := range boardErrors {
			value := 4000.0
			if labels[0] == boardErrors["thermal_ms"][0] || labels[0] == boardErrors["power_brake_ms"][0] {
				value = throttled
			}
			s.Add(at(minute), value, labels[0], slices.Concat([]string{"node", "a", "UUID", "GPU-1"}, labels[1:])...)
		}
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	want := map[string]int64{"thermal_ms": 8000, "power_brake_ms": 8000}
	for counter := range boardErrors {
		want[counter] += 0
	}
	if diff := cmp.Diff(want, errorsOf(h)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestRASErrors checks that the errors of an AMD GPU are filed in the same columns as the memory errors of other
// boards. Its counters restart with each boot, so the errors over its life must be unknown.
func TestRASErrors(t *testing.T) {
	s := history{foldtest.NewStore()}
	labels := []string{"node", "a", "UUID", "GPU-1"}
	for _, read := range []struct{ minute, correctable, uncorrectable float64 }{{50, 57, 2}, {70, 59, 2}, {90, 1, 0}, {110, 4, 0}} { // a reboot at 80
		minute := read.minute
		s.board(minute, minute, -600, "a")
		for kind, count := range map[string]float64{"correctable": read.correctable, "uncorrectable": read.uncorrectable} {
			s.Add(at(minute), count, "gpuledger_board_ras_errors_total", slices.Concat(labels, []string{"memory", "dram", "error", kind})...)
		}
		s.Add(at(minute), 1, "gpuledger_board_ras_errors_total", slices.Concat(labels, []string{"memory", "sram", "error", "uncorrectable"})...)
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	want := map[string]int64{"dram_correctable": 2 + 4, "dram_uncorrectable": 0, "sram_uncorrectable": 0, "remapped": 0}
	if diff := cmp.Diff(want, errorsOf(h)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if n := h.GPUs[0].LifetimeUncorrectable; n != nil {
		t.Errorf("%d errors over the life of the board, want unknown", *n)
	}
}

// TestLevels checks the values from the last scrape: banks with few spare rows, the required action, and the
// uncorrectable errors over the life of the board, added up over both memories. The series change when the serial
// number becomes known.
func TestLevels(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 110; minute += 10 {
		s.board(minute, minute, -600, "a")
		labels := []string{"node", "a", "UUID", "GPU-1"}
		banks, dram, action := 1.0, 2.0, "none"
		if minute >= 90 {
			labels = append(labels, "serial", "S1")
			banks, dram, action = 3, 5, "reset"
		}
		s.Add(at(minute), banks, "gpuledger_board_low_memory_banks", labels...)
		s.Add(at(minute), 1, "gpuledger_board_recovery_action_info", slices.Concat(labels, []string{"action", action})...)
		s.Add(at(minute), dram, "gpuledger_board_ecc_errors_total", slices.Concat(labels, boardErrors["dram_uncorrectable"][1:])...)
		s.Add(at(minute), 4, "gpuledger_board_ecc_errors_total", slices.Concat(labels, boardErrors["sram_uncorrectable"][1:])...)
		s.Add(at(minute), 100, "gpuledger_board_ecc_errors_total", slices.Concat(labels, boardErrors["dram_correctable"][1:])...)
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	type levels struct {
		LowBanks, Lifetime *int64
		Action             string
	}
	g := h.GPUs[0]
	if diff := cmp.Diff(levels{new(int64(3)), new(int64(9)), "reset"}, levels{g.LowMemoryBanks, g.LifetimeUncorrectable, g.RecoveryAction}); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if want := int64(3); *g.DRAMUncorrectable != want {
		t.Errorf("%d errors of DRAM, want %d", *g.DRAMUncorrectable, want)
	}
	for _, metric := range []string{"gpuledger_board_low_memory_banks", "gpuledger_board_recovery_action_info"} {
		if !slices.Contains(fold.Metrics(), metric) {
			t.Errorf("%s is not read", metric)
		}
	}
}

// TestErrorsOfRefusedBoard checks that the errors of a board are filed although its record is impossible. An error
// counter that two replicas report must be unknown.
func TestErrorsOfRefusedBoard(t *testing.T) {
	s := history{foldtest.NewStore()}
	labels := []string{"node", "a", "UUID", "GPU-1"}
	for minute := 50.0; minute <= 110; minute += 10 {
		s.board(minute, minute*1e9, -600, "a")
		s.Add(at(minute), minute, "gpuledger_board_ecc_errors_total", slices.Concat(labels, boardErrors["dram_uncorrectable"][1:])...)
		s.Add(at(minute), 4, "gpuledger_board_pcie_replays_total", slices.Concat(labels, []string{"prometheus_replica", "0"})...)
		s.Add(at(minute), 4, "gpuledger_board_pcie_replays_total", slices.Concat(labels, []string{"prometheus_replica", "1"})...)
	}
	h, err := hour(s.Store, 1)
	if err == nil {
		t.Fatal("the board is not refused")
	}
	if diff := cmp.Diff(map[string]int64{"remapped": 0, "dram_uncorrectable": 50}, errorsOf(h)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
