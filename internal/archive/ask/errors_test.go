package ask_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/database"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// sickFleet files twenty hours of boards in all kinds of books:
//   - B1 has an uncorrectable DRAM error and an uncorrectable SRAM error, was moved, and needs a reset.
//   - B2 has correctable errors, and was hot for 30 minutes.
//   - B3 has no errors, and B4 has no error counts.
//   - B5 has an uncorrectable error from before the archive and few spare rows, and its node is silent after an
//     hour.
func sickFleet(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	places := map[string]string{"sqlite": filepath.Join(dir, "archive.db")}
	sqlite, err := database.SQLite.Open(t.Context(), places["sqlite"], "")
	check(t, err)
	defer func() { check(t, sqlite.Close()) }()
	sinks := []sinktest.Sink{sqlite}
	for _, format := range files.Formats() {
		places[format] = filepath.Join(dir, format)
		sink, err := files.Open(places[format], []string{format})
		check(t, err)
		defer func() { check(t, sink.Close()) }()
		sinks = append(sinks, sink)
	}
	for n := range 20 {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(n) * time.Hour)}
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
		for _, sink := range sinks {
			check(t, sink.Replace(t.Context(), sinktest.Complete(h)))
		}
	}
	return places
}

// TestErrorsOfStays checks that the errors of a board are in the row of the place in which they occurred. B1 had two
// errors before it was moved, and none after that. The text omits columns without an error, so the text about a board
// without errors has none of these columns.
func TestErrorsOfStays(t *testing.T) {
	tests := map[string]string{
		"B1": "SERIAL  CLUSTER  NODE  PCI  BEGAN  FIRST SEEN        LAST SEEN         ENDED  KWH    UNCORRECTABLE  LIFETIME  REPLAYS  NVLINK  ACTION\n" +
			"B1      east     n1    1    seen   2026-10-01 00:01  2026-10-01 09:59  moved  0.000  2              2         40       5       none\n" +
			"B1      east     n2    1    moved  2026-10-01 10:01  2026-10-01 19:59  -      0.000  0              2         0        0       reset\n",
		"B3": "SERIAL  CLUSTER  NODE  PCI  BEGAN  FIRST SEEN        LAST SEEN         KWH\n" +
			"B3      east     n4    1    seen   2026-10-01 00:01  2026-10-01 19:59  0.000\n",
	}
	for kind, place := range sickFleet(t) {
		for serial, want := range tests {
			r := run(t, "history", serial, "--books="+place, "--to=2026-10-01T20:00")
			if diff := cmp.Diff(want, r.out); diff != "" {
				t.Errorf("%s: exit status %d (-want +got):\n%s%s", kind, r.status, diff, r.err)
			}
		}
		r := run(t, "history", "B1", "--books="+place, "--to=2026-10-01T20:00", "-o", "csv")
		var got []string
		for line := range strings.Lines(r.out) {
			columns := strings.Split(strings.TrimSpace(line), ",")
			got = append(got, columns[4]+" "+strings.Join(columns[20:24], " "))
		}
		want := []string{"node lifetime_uncorrectable_before uncorrectable lifetime_uncorrectable correctable", "n1 0 2 2 0", "n2 2 0 2 0"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s in CSV (-want +got):\n%s", kind, diff)
		}
	}
}

// TestErrorsOfPlaces checks that the errors of a board are in the row of its place. The text omits columns without an
// error.
func TestErrorsOfPlaces(t *testing.T) {
	tests := map[string]string{
		"B1": "SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN         UNCORRECTABLE  LIFETIME  REPLAYS  NVLINK  ACTION\n" +
			"B1      H100   present  east     n2    1    2026-10-01 10:01  2026-10-01 19:59  2              2         40       5       reset\n",
		"B2": "SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN         CORRECTABLE  HOT HOURS\n" +
			"B2      H100   present  east     n3    1    2026-10-01 00:01  2026-10-01 19:59  40           0.50\n",
		"B3": "SERIAL  MODEL  STATE    CLUSTER  NODE  PCI  SINCE             LAST SEEN\n" +
			"B3      H100   present  east     n4    1    2026-10-01 00:01  2026-10-01 19:59\n",
	}
	names := []string{"lifetime_uncorrectable_before", "uncorrectable", "lifetime_uncorrectable", "correctable", "low_memory_banks", "thermal_ms", "recovery_action"}
	values := map[string]string{"B1": "0 2 2 0 - - reset", "B2": "0 0 0 40 - 1800000 -", "B5": "1 0 1 - 3 - -", "B4": "- - - - - - -", "B9": "- - - - - - -"}
	for kind, place := range sickFleet(t) {
		for serial, want := range tests {
			r := run(t, "where", serial, "--books="+place, "--to=2026-10-01T20:00")
			if diff := cmp.Diff(want, r.out); diff != "" {
				t.Errorf("%s: exit status %d (-want +got):\n%s%s", kind, r.status, diff, r.err)
			}
		}
		r := run(t, "where", "B1", "B2", "B4", "B5", "B9", "--books="+place, "--to=2026-10-01T20:00", "-o", "csv")
		got := make(map[string]string)
		for i, name := range column(t, r.out, "name") {
			var texts []string
			for _, c := range names {
				text := column(t, r.out, c)[i]
				if text == "" {
					text = "-"
				}
				texts = append(texts, text)
			}
			got[name] = strings.Join(texts, " ")
		}
		if diff := cmp.Diff(values, got); diff != "" {
			t.Errorf("%s in CSV (-want +got):\n%s%s", kind, diff, r.err)
		}
	}
}

// TestErrorsOfWeek checks that the question "where" counts only errors in the seven days before the last hour. One
// error is 180 hours older than the last hour, and another is 168 hours older, so "where" counts one error. The
// question "history" counts both.
func TestErrorsOfWeek(t *testing.T) {
	var hours []*table.Hour
	for n := range 181 {
		start, count, lifetime := october.Add(time.Duration(n)*time.Hour), int64(0), int64(1)
		if n == 0 || n == 12 {
			count = 1
		}
		if n >= 12 {
			lifetime = 2
		}
		hours = append(hours, &table.Hour{GPUs: []table.GPU{{
			Node: "n1", UUID: "GPU-1", Serial: "S1", PCIBusID: "1", First: start, Last: start.Add(59 * time.Minute), Scrapes: 60, DRAMUncorrectable: &count, LifetimeUncorrectable: &lifetime,
		}}})
	}
	folder := archived(t, hours...)
	for command, want := range map[string]string{"where": "1 1 2", "history": "0 2 2"} {
		r := run(t, command, "S1", "--books="+folder, "--to=2026-10-08T13:00", "-o", "csv")
		var got []string
		for _, name := range []string{"lifetime_uncorrectable_before", "uncorrectable", "lifetime_uncorrectable"} {
			got = append(got, column(t, r.out, name)...)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %v, want %s: exit status %d\n%s%s", command, got, want, r.status, r.out, r.err)
		}
	}
}

// TestErrorsOfAMD checks questions about AMD's boards, which report neither errors over their life nor a power brake
// (docs/amd.md). A board in warranty with two uncorrectable errors must be listed, but not a board with only corrected
// errors.
func TestErrorsOfAMD(t *testing.T) {
	assets := filepath.Join(t.TempDir(), "assets.csv")
	check(t, os.WriteFile(assets, []byte("serial,tag,warranty\nM1,A-1,2030-01-01\nM2,A-2,2030-01-01\n"), 0o600))
	var hours []*table.Hour
	for n := range 3 {
		start := october.Add(time.Duration(n) * time.Hour)
		board := func(serial string, uncorrectable int64) table.GPU {
			return table.GPU{
				Node: "n" + serial, UUID: serial, Serial: serial, PCIBusID: "1", Model: "MI300X", First: start, Last: start.Add(59 * time.Minute), Scrapes: 60,
				DRAMCorrectable: new(int64(4)), DRAMUncorrectable: &uncorrectable, SRAMCorrectable: new(int64), SRAMUncorrectable: new(int64),
				RetiredPages: new(8 * uncorrectable), PCIeReplays: new(int64), Thermal: new(int64(600_000)),
			}
		}
		hours = append(hours, &table.Hour{GPUs: []table.GPU{board("M1", int64(n)%2*2), board("M2", 0)}})
	}
	folder := archived(t, hours...)
	names := []string{"serial", "uncorrectable", "lifetime_uncorrectable", "correctable", "retired_pages", "thermal_ms", "power_brake_ms"}
	for _, tt := range []struct{ args, want string }{
		{"errors --in-warranty --uncorrectable --assets=" + assets, "M1,2,,12,16,1800000,"},
		{"history M1", "M1,2,,12,16,1800000,"},
		{"where M2", "M2,0,,12,0,1800000,"},
	} {
		r := run(t, append(strings.Fields(tt.args), "--books="+folder, "--from=2026-10-01T00:00", "--to=2026-10-01T03:00", "-o", "csv")...)
		var got []string
		for _, name := range names {
			got = append(got, strings.Join(column(t, r.out, name), " "))
		}
		if diff := cmp.Diff(tt.want, strings.Join(got, ",")); diff != "" {
			t.Errorf("%s: exit status %d (-want +got):\n%s%s", tt.args, r.status, diff, r.err)
		}
	}
}

// TestLossesInReport checks the sentence about how often the driver lost a board.
func TestLossesInReport(t *testing.T) {
	for losses, want := range map[int64]string{0: "The driver never lost the board. ", 1: "The driver lost the board once. ", 2: "The driver lost the board 2 times. "} {
		folder := archived(t, &table.Hour{GPUs: []table.GPU{{
			Node: "n1", UUID: "GPU-1", Serial: "S1", First: october, Last: october, Scrapes: 1, Losses: losses, RemappedCorrectable: 1,
		}}})
		if r := run(t, "report", "S1", "--books="+folder, "--to=2026-10-01T01:00"); !strings.Contains(r.out, want+"Memory rows remapped: 1") {
			t.Errorf("exit status %d, want %q in\n%s%s", r.status, want, r.out, r.err)
		}
	}
}

// TestErrors asks for all boards with errors, named boards, boards in warranty, and boards with uncorrectable errors.
func TestErrors(t *testing.T) {
	assets := filepath.Join(t.TempDir(), "assets.csv")
	check(t, os.WriteFile(assets, []byte("serial,tag,warranty\nB1,A-1,2026-10-01\nB2,A-2,2026-09-30\nB3,A-3,2030-01\nB5,A-5,soon\n"), 0o600))
	const (
		header = "SERIAL  ASSET  WARRANTY    MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  LOW BANKS  RETIRED PAGES  REPLAYS  NVLINK  HOT HOURS  BRAKE HOURS  ACTION\n"
		b1     = "B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  2              2         0            -          -              40       5       -          -            reset\n"
		few    = "SERIAL  ASSET  WARRANTY    MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  REPLAYS  NVLINK  ACTION\n"
		silent = "! GPUs without error counts in this time, because the GPU or its exporter reported no counts: 1\n"
	)
	tests := map[string]struct {
		args []string
		want string
	}{
		"all": {nil, header + b1 +
			"B5      A-5    soon        H100   silent   east     n6    1    2026-10-01 00:59  0              1         -            3          0              -        -       -          -            -\n" +
			"B2      A-2    2026-09-30  H100   present  east     n3    1    2026-10-01 19:59  0              0         40           -          -              -        -       0.50       0.00         -\n" + silent},
		"in warranty": {
			[]string{"--in-warranty"}, few +
				"B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  2              2         0            40       5       reset\n" + silent +
				"! GPUs with errors that are not listed, because --assets contains no valid end of their warranty: 1\n",
		},
		"uncorrectable, in warranty": {
			[]string{"--in-warranty", "--uncorrectable", "--from=2026-10-01T08:00"}, few +
				"B1      A-1    2026-10-01  H100   present  east     n2    1    2026-10-01 19:59  0              2         0            0        0       reset\n" + silent,
		},
		"named": {
			[]string{"B3", "B4", "B9"}, "NAME  SERIAL  ASSET  WARRANTY  MODEL  STATE    CLUSTER  NODE  PCI  LAST SEEN         UNCORRECTABLE  LIFETIME  CORRECTABLE  ACTION\n" +
				"B3    B3      A-3    2030-01   H100   present  east     n4    1    2026-10-01 19:59  0              0         0            none\n" +
				"B4    B4      -      -         H100   present  east     n5    1    2026-10-01 19:59  -              -         -            -\n" +
				"B9    -       -      -         -      unknown  -        -     -    -                 -              -         -            -\n" +
				`! "B9" is unknown: did you mean B1, B2, B3?` + "\n" + silent,
		},
	}
	for kind, place := range sickFleet(t) {
		for name, tt := range tests {
			t.Run(kind+"/"+name, func(t *testing.T) {
				args := append([]string{"errors", "--books=" + place, "--assets=" + assets, "--to=2026-10-01T20:00"}, tt.args...)
				r := run(t, args...)
				if diff := cmp.Diff(tt.want, r.out); diff != "" {
					t.Errorf("exit status %d (-want +got):\n%s%s", r.status, diff, r.err)
				}
			})
		}
	}
	for kind, place := range sickFleet(t) {
		r := run(t, "report", "B1", "B3", "B4", "--books="+place, "--to=2026-10-01T20:00")
		var sections []string
		for page := range strings.SplitSeq(r.out, "\n# ") {
			_, section, _ := strings.Cut(page, "## Memory, links and clocks\n\n")
			section, _, _ = strings.Cut(section, "\n\n")
			sections = append(sections, section[strings.LastIndex(section, "\n")+1:])
		}
		want := []string{"| 2 | 2 | 0 | 40 | 5 | reset |", "| 0 | 0 | 0 | none |", ""}
		if rows := "Memory rows remapped: 0 for correctable, 1 for uncorrectable errors."; !strings.Contains(r.out, rows) {
			t.Errorf("%s: the report does not contain %q:\n%s", kind, rows, r.out)
		}
		if diff := cmp.Diff(want, sections); diff != "" {
			t.Errorf("%s: exit status %d (-want +got):\n%s%s%s", kind, r.status, diff, r.out, r.err)
		}
	}
	r := run(t, "errors", "--in-warranty", "--books=.")
	if r.status != 2 {
		t.Errorf("exit status %d without a list of assets: %s", r.status, r.err)
	}
}
