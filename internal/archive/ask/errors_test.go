package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sickFleet writes the same twenty hours to all kinds of archives:
//   - B1 has an uncorrectable DRAM error and an uncorrectable SRAM error, was moved, and needs a reset.
//   - B2 has correctable errors, and was hot for 30 minutes.
//   - B3 has no errors, and B4 has no error counts.
//   - B5 has an uncorrectable error from before the archive and few spare rows. Its node is scraped only in the first
//     hour.
func sickFleet(t *testing.T) map[string]string {
	t.Helper()
	hours := hourly(20, func(n int, h *table.Hour) {
		add := func(serial, node string, of table.GPU) {
			of.Node, of.UUID, of.Serial, of.Model, of.PCIBusID = node, "GPU-"+serial, serial, "H100", "1"
			of.First, of.Last, of.Scrapes = h.Start.Add(time.Minute), h.Start.Add(59*time.Minute), 59
			h.GPUs = append(h.GPUs, of)
		}
		none, in := new(int64(0)), func(hour int, count int64) *int64 {
			if n != hour {
				count = 0
			}
			return &count
		}
		lifetime := int64(0)
		for _, failed := range []int{3, 7} {
			if n >= failed {
				lifetime++
			}
		}
		action, node := "none", "n1"
		if n >= 10 {
			action, node = "reset", "n2"
		}
		add("B1", node, table.GPU{
			DRAMUncorrectable: in(3, 1), SRAMUncorrectable: in(7, 1), DRAMCorrectable: none, SRAMCorrectable: none, LifetimeUncorrectable: &lifetime,
			PCIeReplays: in(2, 40), NVLinkErrors: in(4, 5), RecoveryAction: action, RemappedUncorrectable: *in(0, 1),
		})
		add("B2", "n3", table.GPU{DRAMUncorrectable: none, DRAMCorrectable: new(int64(2)), LifetimeUncorrectable: none, Thermal: in(5, 1_800_000), PowerBrake: none})
		add("B3", "n4", table.GPU{DRAMUncorrectable: none, DRAMCorrectable: none, LifetimeUncorrectable: none, RecoveryAction: "none"})
		add("B4", "n5", table.GPU{})
		if n == 0 {
			add("B5", "n6", table.GPU{DRAMUncorrectable: none, LifetimeUncorrectable: new(int64(1)), LowMemoryBanks: new(int64(3)), RetiredPages: none})
		}
	})
	places := make(map[string]string)
	for _, kind := range bookstest.Kinds {
		places[kind] = bookstest.File(t, kind, hours...)
	}
	return places
}

// In text, a column is missing if all its counts are 0. Errors are listed for the node in which they occurred: B1 had
// two errors before it was moved, and no errors afterwards.
var sickAnswers = []struct {
	question string
	status   int
	want     string
}{
	{"history B1", 0, `SERIAL  CLUSTER  NODE  PCI  BEGAN  FIRST SEEN        LAST SEEN         ENDED  KWH    UNCORRECTABLE  LIFETIME  REPLAYS  NVLINK  ACTION
B1      east     n1    1    seen   2026-10-01 00:01  2026-10-01 09:59  moved  0.000  2              2         40       5       none
B1      east     n2    1    moved  2026-10-01 10:01  2026-10-01 19:59  -      0.000  0              2         0        0       reset
`},
	{"history B3", 0, `SERIAL  CLUSTER  NODE  PCI  BEGAN  FIRST SEEN        LAST SEEN         KWH
B3      east     n4    1    seen   2026-10-01 00:01  2026-10-01 19:59  0.000
`},
	{"where B1", 0, `SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN         UNCORRECTABLE  LIFETIME  REPLAYS  NVLINK  ACTION
B1      H100   present  east     n2    1    2026-10-01 10:01  2026-10-01 19:59  2              2         40       5       reset
`},
	{"where B2", 0, `SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN         CORRECTABLE  HOT HOURS
B2      H100   present  east     n3    1    2026-10-01 00:01  2026-10-01 19:59  40           0.50
`},
	{"where B3", 0, `SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN
B3      H100   present  east     n4    1    2026-10-01 00:01  2026-10-01 19:59
`},
	{"errors --assets=LIST", 0, `SERIAL  ASSET  WARRANTY    MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  LOW BANKS  RETIRED PAGES  REPLAYS  NVLINK  HOT HOURS  BRAKE HOURS  ACTION
B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  2              2         0            -          -              40       5       -          -            reset
B5      A-5    soon        H100   silent   east     n6    1    2026-10-01 00:59  0              1         -            3          0              -        -       -          -            -
B2      A-2    2026-09-30  H100   present  east     n3    1    2026-10-01 19:59  0              0         40           -          -              -        -       0.50       0.00         -
! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1
`},
	{"errors --assets=LIST --in-warranty", 0, `SERIAL  ASSET  WARRANTY    MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  REPLAYS  NVLINK  ACTION
B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  2              2         0            40       5       reset
! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1
! GPUs that have errors but are not listed, because --assets contains no valid end of their warranty: 1
`},
	{"errors --assets=LIST --in-warranty --uncorrectable --from=2026-10-01T08:00", 0, `SERIAL  ASSET  WARRANTY    MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  REPLAYS  NVLINK  ACTION
B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  0              2         0            0        0       reset
! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1
`},
	{"errors --assets=LIST B3 B4 B9", 1, `NAME  SERIAL  ASSET  WARRANTY  MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  ACTION
B3    B3      A-3    2030-01   H100   present  east     n4    1    2026-10-01 19:59  0              0         0            none
B4    B4      -      -         H100   present  east     n5    1    2026-10-01 19:59  -              -         -            -
B9    -       -      -         -      unknown  -        -     -    -                 -              -         -            -
! "B9" is unknown: did you mean B1, B2, B3?
! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1
`},
}

func TestErrors(t *testing.T) {
	assets := file(t, "serial,tag,warranty\nB1,A-1,2026-10-01\nB2,A-2,2026-09-30\nB3,A-3,2030-01\nB5,A-5,soon\n")
	errorNames := []string{"lifetime_uncorrectable_before", "uncorrectable", "lifetime_uncorrectable", "correctable", "low_memory_banks", "thermal_ms", "recovery_action"}
	for _, place := range sickFleet(t) {
		ask := func(question string) result {
			return run(t, append(strings.Fields(strings.Replace(question, "LIST", assets, 1)), "--books="+place, "--to=2026-10-01T20:00")...)
		}
		for _, tt := range sickAnswers {
			ask(tt.question).prints(tt.status, tt.want)
		}
		ask("history B1 -o csv").lists(append([]string{"node"}, errorNames...), "n1,0,2,2,0,,,none", "n2,2,0,2,0,,,reset")
		ask("where B1 B2 B4 B5 B9 -o csv").lists(append([]string{"name"}, errorNames...), "B1,0,2,2,0,,,reset", "B2,0,0,0,40,,1800000,", "B4,,,,,,,", "B5,1,0,1,,3,,", "B9,,,,,,,")
		r := ask("report B1 B3 B4")
		r.has(0, "Memory rows remapped: 0 for correctable, 1 for uncorrectable errors.", "| 2 | 2 | 0 | 40 | 5 | reset |", "| 0 | 0 | 0 | none |")
		if n := strings.Count(r.out, "## Memory, links and clocks"); n != 2 {
			t.Errorf("the report contains the errors of %d boards, want B1 and B3:\n%s", n, r.out)
		}
	}
	run(t, "errors", "--in-warranty", "--books=.").has(2)
}

// TestErrorsOfWeek checks that "where" counts only the errors in the seven days before the last hour, and that
// "history" counts all errors. One error is 180 hours older than the last hour, and another is 168 hours older.
func TestErrorsOfWeek(t *testing.T) {
	folder := bookstest.File(t, "csv", hourly(181, func(n int, h *table.Hour) {
		count, lifetime := int64(0), int64(1)
		if n == 0 || n == 12 {
			count = 1
		}
		if n >= 12 {
			lifetime = 2
		}
		g := present(h.Start, "n1", "GPU-1", "1", "H100")
		g.DRAMUncorrectable, g.LifetimeUncorrectable = &count, &lifetime
		h.GPUs = []table.GPU{g}
	})...)
	for command, want := range map[string]string{"where": "1,1,2", "history": "0,2,2"} {
		run(t, command, "S1", "--books="+folder, "--to=2026-10-08T13:00", "-o", "csv").
			lists([]string{"lifetime_uncorrectable_before", "uncorrectable", "lifetime_uncorrectable"}, want)
	}
}

// TestErrorsOfAMD checks AMD's boards, which report neither a lifetime number of errors nor a power brake
// (docs/amd.md). Of two boards in warranty, only the board with uncorrectable errors must be listed.
func TestErrorsOfAMD(t *testing.T) {
	assets := file(t, "serial,tag,warranty\nM1,A-1,2030-01-01\nM2,A-2,2030-01-01\n")
	folder := bookstest.File(t, "csv", hourly(3, func(n int, h *table.Hour) {
		board := func(serial string, uncorrectable int64) table.GPU {
			return table.GPU{
				Node: "n" + serial, UUID: serial, Serial: serial, PCIBusID: "1", Model: "MI300X", First: h.Start, Last: h.Start.Add(59 * time.Minute), Scrapes: 60,
				DRAMCorrectable: new(int64(4)), DRAMUncorrectable: &uncorrectable, SRAMCorrectable: new(int64), SRAMUncorrectable: new(int64),
				RetiredPages: new(8 * uncorrectable), PCIeReplays: new(int64), Thermal: new(int64(600_000)),
			}
		}
		h.GPUs = []table.GPU{board("M1", int64(n)%2*2), board("M2", 0)}
	})...)
	names := []string{"serial", "uncorrectable", "lifetime_uncorrectable", "correctable", "retired_pages", "thermal_ms", "power_brake_ms"}
	for _, tt := range []struct{ args, want string }{
		{"errors --in-warranty --uncorrectable --assets=" + assets, "M1,2,,12,16,1800000,"},
		{"history M1", "M1,2,,12,16,1800000,"},
		{"where M2", "M2,0,,12,0,1800000,"},
	} {
		run(t, append(strings.Fields(tt.args), "--books="+folder, "--from=2026-10-01T00:00", "--to=2026-10-01T03:00", "-o", "csv")...).lists(names, tt.want)
	}
}

func TestLossesInReport(t *testing.T) {
	for losses, want := range map[int64]string{0: "The driver never lost the board. ", 1: "The driver lost the board once. ", 2: "The driver lost the board 2 times. "} {
		folder := archived(t, &table.Hour{GPUs: []table.GPU{{
			Node: "n1", UUID: "GPU-1", Serial: "S1", First: october, Last: october, Scrapes: 1, Losses: losses, RemappedCorrectable: 1,
		}}})
		run(t, "report", "S1", "--books="+folder, "--to=2026-10-01T01:00").has(0, want+"Memory rows remapped: 1")
	}
}
