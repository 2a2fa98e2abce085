package ask_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/fold/foldtest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestAccepted checks that statement and verify list the hours that an operator has accepted, and the operator's
// reason.
func TestAccepted(t *testing.T) {
	reasons := []string{"", "rack 7 was moved", "rack 7 was moved", "", "a power cut", ""}
	folder := bookstest.File(t, "csv", hourly(len(reasons), func(n int, h *table.Hour) {
		sinktest.Complete(h).Reason = reasons[n]
		if h.Reason != "" || n == 5 { // hours from earlier versions have no reason
			h.State = table.Gaps
		}
	})...)
	want := `! incomplete: 1 hours of east were accepted although samples are missing, 2026-10-01T04 to 2026-10-01T05: a power cut
! incomplete: 1 hours of east were accepted although samples are missing, 2026-10-01T05 to 2026-10-01T06: filed by an earlier version
! incomplete: 2 hours of east were accepted although samples are missing, 2026-10-01T01 to 2026-10-01T03: rack 7 was moved
`
	for _, question := range []string{"statement", "verify"} {
		run(t, question, "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T06").has(map[bool]int{true: 1}[question == "verify"], want)
	}
}

// TestCarbonGaps checks that a statement lists the hours without a carbon intensity. A row without dates applies to
// every hour. The boards use 1 kWh in each of 48 hours.
func TestCarbonGaps(t *testing.T) {
	hourly := "Datetime (UTC),Zone id,Carbon intensity gCO₂eq/kWh (Life cycle)\n"
	for n := range 24 {
		if n < 3 || n > 5 {
			hourly += fmt.Sprintf("2026-10-01 %02d:00:00,DE,100\n", n)
		}
	}
	for name, tt := range map[string]struct{ carbon, kg, notice string }{
		"gap":      {hourly, "2.1", "! incomplete: 27 hours of east have no intensity in --carbon: 27.000 kWh are left out\n"},
		"no dates": {"from,until,grams_per_kwh\n,,500\n", "24", ""},
		"one hour": {"Datetime (UTC),Carbon intensity gCO₂eq/kWh (Life cycle)\n2026-10-02 05:00:00,1000\n", "1", "! incomplete: 47 hours of east have no intensity in --carbon: 47.000 kWh are left out\n"},
	} {
		args := []string{"--books=" + books(t), "--from=2026-10-01", "--to=2026-10-03", "--carbon=" + file(t, tt.carbon), "-o", "csv"}
		r := run(t, append([]string{"statement", "--by=cluster"}, args...)...)
		if r.status != 0 || !strings.Contains(r.out, ","+tt.kg+","+fmt.Sprint(tt.notice == "")+"\n") || !strings.Contains(r.err, tt.notice) || tt.notice == "" && r.err != "" {
			t.Errorf("%s: exit status %d, want %s kg and %q\n%s%s", name, r.status, tt.kg, tt.notice, r.out, r.err)
		}
		run(t, append([]string{"statement", "--format=impact-framework"}, args...)...).has(0, tt.notice)
	}
}

func TestPartial(t *testing.T) {
	for _, body := range []string{
		`{"status":"success","warnings":["store a is down"],"data":[]}`,
		`{"status":"success","isPartial":true,"data":[]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		r := run(t, "where", "S1", "--store.url="+server.URL)
		if r.has(1, "repair the store"); strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: the error has several lines:\n%s%s", body, r.out, r.err)
		}
		server.Close()
	}
}

// TestPruned checks that a prune changes no statement of a whole month, and no cost by model. It also checks the
// notices about pruned and removed hours.
func TestPruned(t *testing.T) {
	folder := books(t)
	byModel := file(t, "from,until,cluster,model,per_kwh,per_gpu_hour,currency\n2026-01-01,,,,0.20,,EUR\n2026-01-01,,east,H100,,2,EUR\n")
	questions := [][]string{
		{"statement", "--month=2026-10", "--prices=" + byModel},
		{"statement", "--month=2026-10", "--by=namespace,workload,reason", "-o", "csv"},
		{"idle", "--month=2026-10"},
		{"statement", "--month=2026-10", "--by=model"},
	}
	ask := func(args ...string) result { return run(t, append(args, "--books="+folder)...) }
	var before []string
	for _, args := range questions {
		before = append(before, ask(args...).out)
	}
	prune := func() {
		t.Helper()
		sink, err := files.Open(folder, []string{"csv"})
		check(t, err)
		check(t, sink.Prune(t.Context(), october.AddDate(0, 1, 0), false, func(table.Deleted) {}))
		check(t, sink.Close())
	}
	prune()
	for i, args := range questions {
		if diff := cmp.Diff(before[i], ask(args...).out); diff != "" || before[i] == "" {
			t.Errorf("%v (-before +after):\n%s", args, diff)
		}
	}
	for _, tt := range []struct{ question, want string }{
		{"statement --month=2026-10 --prices=" + file(t, prices), "2026-10 is pruned, so the prices and intensities at the start of the month apply to the whole month"},
		{"statement --month=2026-10 --by=pod", "the sums of pruned months contain no pods, nodes and boards"},
		{"statement --from=2026-10-01 --to=2026-10-02", "the details of 24 hours of east are pruned"},
		{"statement --month=2026-10 --format=impact-framework -o json", "the details of 48 hours of east are pruned"},
		{"moves --since=40d", "the details before 2026-10-03 00:00 are pruned"},
	} {
		r := ask(strings.Fields(tt.question)...)
		r.has(0, tt.want)
		r.lacks("differ")
	}
	half := ask("statement", "--from=2026-10-01T12", "--to=2026-10-03", "--by=pod", "--prices="+file(t, prices))
	half.has(0, "the details of 36 hours of east are pruned")
	half.lacks("at the start of the month", "the sums of pruned months")
	verified := func(want string) {
		t.Helper()
		ask("verify", "--month=2026-10", "-o", "csv").has(1, "\n"+want+"\n")
	}
	const missing = "2026-10-03T00 to 2026-11-01T00"
	verified("east,48,744," + missing + ",0,0,0,0,48,0,172800000000,172800000000,0,0,false")

	// An administrator removes the files of a day.
	folder = books(t)
	for _, of := range table.Data {
		check(t, os.RemoveAll(filepath.Join(folder, of.Name, "cluster=east", "date=2026-10-02")))
	}
	verified("east,48,744," + missing + ",0,0,0,0,0,24,172800000000,86400000000,0,24,false")
	ask("verify", "--month=2026-10").has(1, "the rows of 24 hours are missing although the manifest lists them")
	prune()
	verified("east,48,744," + missing + ",0,0,0,0,48,24,86400000000,86400000000,0,0,false")
	removed := ask("statement", "--month=2026-10")
	removed.has(0, "the rows of 24 hours of east were removed, and no sums were kept")
	removed.lacks("differ")
}

// TestHours checks that consecutive hours with the same state and reason share a row. The rows of missing and accepted
// hours must contain the command that files these hours.
func TestHours(t *testing.T) {
	var hours []*table.Hour
	for hour, state := range map[int]table.State{1: table.Complete, 2: table.Complete, 4: table.Gaps, 5: table.Gaps, 6: table.Corrected} {
		h := sinktest.Complete(&table.Hour{Cluster: "east", Start: october.Add(time.Duration(hour) * time.Hour)})
		h.State = state
		if hour == 4 || hour == 5 {
			h.Reason = "rack 7 was moved"
		}
		hours = append(hours, h)
	}
	want := `CLUSTER  STATE      FROM              UNTIL             HOURS  KWH    REASON            COMMAND
east     missing    2026-10-01 00:00  2026-10-01 01:00  1      0.000  -                 gpuledger-archive once --from=2026-10-01T00 --until=2026-10-01T01
east     complete   2026-10-01 01:00  2026-10-01 03:00  2      0.000  -                 -
east     missing    2026-10-01 03:00  2026-10-01 04:00  1      0.000  -                 gpuledger-archive once --from=2026-10-01T03 --until=2026-10-01T04
east     gaps       2026-10-01 04:00  2026-10-01 06:00  2      0.000  rack 7 was moved  gpuledger-archive once --again --from=2026-10-01T04 --until=2026-10-01T06
east     corrected  2026-10-01 06:00  2026-10-01 07:00  1      0.000  -                 -
east     missing    2026-10-01 07:00  2026-10-01 09:00  2      0.000  -                 gpuledger-archive once --from=2026-10-01T07 --until=2026-10-01T09
`
	run(t, "hours", "--books="+bookstest.File(t, "csv", hours...), "--from=2026-10-01", "--to=2026-10-01T09").prints(0, want)
}

// boards returns a store with the samples of two boards. Each draws 200 W, and all energy is charged to pods. change
// may modify each sample.
func boards(minutes int, change func(minute int, metric, uuid string, value float64) float64) *foldtest.Store {
	s := foldtest.NewStore()
	for minute := range minutes {
		at := october.Add(time.Duration(minute)*time.Minute + 7*time.Second)
		for i, uuid := range []string{"GPU-1", "GPU-2"} {
			serial := []string{"S1", "S2"}[i]
			labels := []string{"cluster", "east", "node", "n1", "UUID", uuid, "serial", serial}
			pod := append(slices.Clone(labels), "namespace", "vision", "pod", "p"+serial, "pod_uid", "uid-"+serial)
			add := func(metric string, value float64, labels ...string) {
				s.Add(at, change(minute, metric, uuid, value), metric, labels...)
			}
			add("gpuledger_placement_info", 1, append(slices.Clone(labels), "chassis_serial", "C1", "pci_bus_id", uuid)...)
			add("gpuledger_board_energy_joules_total", float64(12_000*minute), labels...)
			add("gpuledger_board_created_timestamp_seconds", float64(october.Unix()), labels...)
			add("gpuledger_allocation_energy_joules_total", float64(12_000*minute), pod...)
			add("gpuledger_allocation_created_timestamp_seconds", float64(october.Unix()), pod...)
			if serial == "S1" {
				s.Add(at, 1, "gpuledger_pod_info", append([]string{"cluster", "east"}, pod[8:]...)...)
			}
		}
	}
	return s
}

// TestRefusedHours checks an hour whose samples in a store are impossible. The hour must have no energy and no cost,
// and all commands must still succeed. All answers must contain a notice, except the answers of "moves" and "missing".
func TestRefusedHours(t *testing.T) {
	for name, change := range map[string]func(minute int, metric, uuid string, value float64) float64{
		"exceed the energy": func(minute int, metric, uuid string, value float64) float64 {
			if uuid == "GPU-1" && minute >= 150 && metric == "gpuledger_allocation_energy_joules_total" {
				return value + 1
			}
			return value
		},
		"rises by 1012000.000 J from 2026-10-01 02:29:07": func(minute int, metric, uuid string, value float64) float64 {
			if uuid == "GPU-1" && minute >= 150 && strings.HasSuffix(metric, "energy_joules_total") {
				return value + 1e6
			}
			return value
		},
	} {
		server := httptest.NewServer(foldtest.API{Store: boards(5*60, change)})
		defer server.Close()
		for question, want := range map[string]string{
			"where S1":   "S1",
			"where C1":   "S2",
			"history S1": "2026-10-01 00:00",
			"ran S1":     "vision",
			"moves":      "",
			"missing":    "",
			"statement":  "1.593",
			"report S1":  "Board S1",
		} {
			args := append(strings.Fields(question), "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples")
			r := run(t, args...)
			r.has(0, want)
			if question != "moves" && question != "missing" {
				r.has(0, "hour 2026-10-01 02:00 of east is refused", "board S1", name)
			}
		}
		r := run(t, "statement", "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples", "--by=pod", "--prices="+file(t, "from,per_kwh,currency\n2026-01-01,1,EUR\n"))
		// Two boards use 200 W each for four hours. The first scrape is after the first minute, so one minute is not
		// counted.
		r.has(0, "incomplete: 1 of 5 hours of east are refused", "1.593")
		run(t, "verify", "--store.url="+server.URL, "--from=2026-10-01", "--to=2026-10-01T05", "--store.read=samples", "-o", "csv").
			has(1, "east,5,5,,0,0,1,1,", "unknown pod vision/pS2 (uid-S2) of east: 0.797 kWh in 5 hours")
	}
}
