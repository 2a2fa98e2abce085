package ask_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/files"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestAccepted checks that a statement and verify list the hours that an operator has accepted, with the reason.
func TestAccepted(t *testing.T) {
	var hours []*table.Hour
	for hour, reason := range []string{"", "rack 7 was moved", "rack 7 was moved", "", "a power cut", ""} {
		h := &table.Hour{Cluster: "east", Start: october.Add(time.Duration(hour) * time.Hour)}
		filed := sinktest.Complete(h)
		filed.Reason = reason
		if reason != "" || hour == 5 { // hours from earlier versions have no reason
			filed.State = table.Gaps
		}
		hours = append(hours, filed)
	}
	folder := bookstest.File(t, "csv", hours...)
	want := `! incomplete: 1 hours of east were accepted although samples are missing, 2026-10-01T04 to 2026-10-01T05: a power cut
! incomplete: 1 hours of east were accepted although samples are missing, 2026-10-01T05 to 2026-10-01T06: filed by an earlier version
! incomplete: 2 hours of east were accepted although samples are missing, 2026-10-01T01 to 2026-10-01T03: rack 7 was moved
`
	for _, question := range []string{"statement", "verify"} {
		r := run(t, question, "--books="+folder, "--from=2026-10-01", "--to=2026-10-01T06")
		if !strings.Contains(r.out, want) {
			t.Errorf("%s (want the notices\n%s):\n%s%s", question, want, r.out, r.err)
		}
	}
}

// TestCarbonGaps checks that a statement reports the hours without an intensity, and that rows without dates always
// apply. In each of 48 hours, the boards use 1 kWh.
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
		if r := run(t, append([]string{"statement", "--format=impact-framework"}, args...)...); r.status != 0 || !strings.Contains(r.err, tt.notice) {
			t.Errorf("%s, Impact Framework: exit status %d, want %q\n%s", name, r.status, tt.notice, r.err)
		}
	}
}

// TestPartial checks that a partial response from a store causes an error of one line.
func TestPartial(t *testing.T) {
	for _, body := range []string{
		`{"status":"success","warnings":["store a is down"],"data":[]}`,
		`{"status":"success","isPartial":true,"data":[]}`,
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
		r := run(t, "where", "S1", "--store.url="+server.URL)
		if r.status != 1 || !strings.Contains(r.err, "repair the store") || strings.Count(r.err, "\n") != 1 || r.out != "" {
			t.Errorf("%s: exit status %d\n%s%s", body, r.status, r.out, r.err)
		}
		server.Close()
	}
}

// TestPruned checks that statements of a whole month contain the same amounts after a prune, including costs by model,
// and checks the notices about pruned and removed hours.
func TestPruned(t *testing.T) {
	folder := t.TempDir()
	check(t, os.CopyFS(folder, os.DirFS(books(t))))
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
		sink, err := files.Open(folder, []string{"parquet"})
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
		if r := ask(strings.Fields(tt.question)...); !strings.Contains(r.out+r.err, tt.want) || strings.Contains(r.out+r.err, "differ") {
			t.Errorf("%s: no %q in\n%s%s", tt.question, tt.want, r.out, r.err)
		}
	}
	half := ask("statement", "--from=2026-10-01T12", "--to=2026-10-03", "--by=pod", "--prices="+file(t, prices))
	if !strings.Contains(half.out, "the details of 36 hours of east are pruned") || strings.Contains(half.out, "at the start of the month") || strings.Contains(half.out, "the sums of pruned months") {
		t.Errorf("statement without sums:\n%s%s", half.out, half.err)
	}
	verified := func(want string) {
		t.Helper()
		r := ask("verify", "--month=2026-10", "-o", "csv")
		if lines := strings.Split(r.out, "\n"); len(lines) < 2 || lines[1] != want {
			t.Errorf("verify: %s%s\nwant %s", r.out, r.err, want)
		}
	}
	const missing = "2026-10-03T00 to 2026-11-01T00"
	verified("east,48,744," + missing + ",0,0,0,0,48,0,172800000000,172800000000,0,0,false")

	// An administrator removes the files of a day.
	folder = t.TempDir()
	check(t, os.CopyFS(folder, os.DirFS(books(t))))
	for _, of := range table.Data {
		check(t, os.RemoveAll(filepath.Join(folder, of.Name, "cluster=east", "date=2026-10-02")))
	}
	verified("east,48,744," + missing + ",0,0,0,0,0,24,172800000000,86400000000,0,24,false")
	if r := ask("verify", "--month=2026-10"); !strings.Contains(r.out, "the rows of 24 hours are missing although the manifest lists them") {
		t.Errorf("verify:\n%s%s", r.out, r.err)
	}
	prune()
	verified("east,48,744," + missing + ",0,0,0,0,48,24,86400000000,86400000000,0,0,false")
	if r := ask("statement", "--month=2026-10"); !strings.Contains(r.out, "the rows of 24 hours of east were removed without sums") || strings.Contains(r.out, "differ") {
		t.Errorf("statement:\n%s%s", r.out, r.err)
	}
}
