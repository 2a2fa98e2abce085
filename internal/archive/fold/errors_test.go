package fold_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/test/fatal"
)

var check = fatal.If

// boardError is an error counter of a board. labels contains the labels that a board's other series do not have. column
// is the key in [errorsOf].
type boardError struct {
	column, metric string
	labels         []string
}

func (e boardError) add(s history, minutes, value float64, more ...string) {
	s.Add(at(minutes), value, e.metric, slices.Concat([]string{"node", "a", "UUID", "GPU-1"}, e.labels, more)...)
}

const ecc, ras = "gpuledger_board_ecc_errors_total", "gpuledger_board_ras_errors_total"

var (
	dramUncorrectable = boardError{"dram_uncorrectable", ecc, []string{"memory", "dram", "error", "uncorrectable"}}
	pcieReplays       = boardError{"pcie_replays", "gpuledger_board_pcie_replays_total", nil}
	boardErrors       = []boardError{
		dramUncorrectable, pcieReplays,
		{"dram_correctable", ecc, []string{"memory", "dram", "error", "correctable"}},
		{"sram_correctable", ecc, []string{"memory", "sram", "error", "correctable"}},
		{"sram_uncorrectable", ecc, []string{"memory", "sram", "error", "uncorrectable"}},
		{"dram_correctable", ras, []string{"memory", "dram", "error", "correctable"}},
		{"dram_uncorrectable", ras, []string{"memory", "dram", "error", "uncorrectable"}},
		{"sram_uncorrectable", ras, []string{"memory", "sram", "error", "uncorrectable"}},
		{"retired_pages", "gpuledger_board_retired_pages_total", nil},
		{"nvlink_errors", "gpuledger_board_nvlink_errors_total", nil},
		{"thermal_ms", "gpuledger_board_thermal_throttled_seconds_total", nil},
		{"power_brake_ms", "gpuledger_board_power_brake_throttled_seconds_total", nil},
		{"remapped", "gpuledger_board_remapped_rows_total", []string{"error", "uncorrectable"}},
	}
)

func (e boardError) isTime() bool { return strings.HasSuffix(e.column, "_ms") }

// errorsOf returns the error counts of the hour's only GPU, by column. It omits unknown counts.
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

// TestErrors checks the number of errors in the second hour. The board was also scraped before this hour.
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
		for _, e := range boardErrors {
			t.Run(name+"/"+e.column+" from "+e.metric, func(t *testing.T) {
				s := history{foldtest.NewStore()}
				for minute := 50.0; minute <= 110; minute += 10 {
					s.board(minute, minute, -600, "a")
				}
				for _, x := range tt.samples {
					e.add(s, x.minute, x.value)
				}
				h, err := hour(s.Store, 1)
				check(t, err)
				want := map[string]int64{"remapped": 0, e.column: tt.want}
				if e.isTime() {
					want[e.column] *= 1000
				}
				if tt.unknown && e.column != "remapped" {
					delete(want, e.column)
				}
				if diff := cmp.Diff(want, errorsOf(h)); diff != "" {
					t.Errorf("-want +got:\n%s", diff)
				}
				// The counters of an AMD GPU restart at each boot, so the lifetime number of errors is unknown.
				lifetime := !tt.unknown && e.metric == ecc && strings.HasSuffix(e.column, "_uncorrectable")
				if n := h.GPUs[0].LifetimeUncorrectable; (n != nil) != lifetime {
					t.Errorf("errors over the life of the board are known: %t, want %t", n != nil, lifetime)
				}
			})
		}
	}
}

// TestErrorsOfReboot checks that a reboot does not add lifetime error counts a second time. The throttled time restarts
// at 0. Its whole value must be added, even if it is higher than before the boot.
func TestErrorsOfReboot(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 110; minute += 10 {
		began, throttled := -600.0, 5.0
		if minute >= 80 {
			began, throttled = 75, 8
		}
		s.board(minute, 100+minute, began, "a")
		for _, e := range boardErrors {
			value := 4000.0
			if e.isTime() {
				value = throttled
			}
			e.add(s, minute, value)
		}
	}
	h, err := hour(s.Store, 1)
	check(t, err)
	want := map[string]int64{"thermal_ms": 8000, "power_brake_ms": 8000}
	for _, e := range boardErrors {
		want[e.column] += 0
	}
	if diff := cmp.Diff(want, errorsOf(h)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestLevels checks the values from the last scrape: the banks with few spare rows, the required action, and the
// lifetime number of uncorrectable errors in both memories. The series change when the serial number becomes known.
func TestLevels(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 110; minute += 10 {
		s.board(minute, minute, -600, "a")
		banks, dram, action, serial := 1.0, 2.0, "none", []string(nil)
		if minute >= 90 {
			banks, dram, action, serial = 3, 5, "reset", []string{"serial", "S1"}
		}
		boardError{"", "gpuledger_board_low_memory_banks", nil}.add(s, minute, banks, serial...)
		boardError{"", "gpuledger_board_recovery_action_info", []string{"action", action}}.add(s, minute, 1, serial...)
		for _, e := range boardErrors {
			if e.metric == ecc {
				e.add(s, minute, map[string]float64{"dram_uncorrectable": dram, "sram_uncorrectable": 4}[e.column], serial...)
			}
		}
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
}

// TestErrorsOfRefusedBoard checks that error counts are kept if the energy of the board is impossible. If two replicas
// report the same error counter, its count must be unknown.
func TestErrorsOfRefusedBoard(t *testing.T) {
	s := history{foldtest.NewStore()}
	for minute := 50.0; minute <= 110; minute += 10 {
		s.board(minute, minute*1e9, -600, "a")
		dramUncorrectable.add(s, minute, minute)
		pcieReplays.add(s, minute, 4, "prometheus_replica", "0")
		pcieReplays.add(s, minute, 4, "prometheus_replica", "1")
	}
	h, err := hour(s.Store, 1)
	if err == nil {
		t.Fatal("the board is not refused")
	}
	if diff := cmp.Diff(map[string]int64{"remapped": 0, "dram_uncorrectable": 50}, errorsOf(h)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
