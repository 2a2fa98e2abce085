package ask_test

import (
	"encoding/csv"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
)

func runWith(t *testing.T, input string, args ...string) result {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	return executeWith(input, october.AddDate(0, 1, 2), args...)
}

// column returns the values of a column of a CSV answer.
func column(t *testing.T, text, name string) (values []string) {
	t.Helper()
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	check(t, err)
	for _, line := range lines[min(1, len(lines)):] {
		for i, head := range lines[0] {
			if head == name {
				values = append(values, line[i])
			}
		}
	}
	return values
}

// rack files an hour of the boards S0 to S39, with two boards per node.
func rack(t *testing.T) string {
	h := &table.Hour{}
	for i := range 40 {
		h.GPUs = append(h.GPUs, table.GPU{Node: fmt.Sprint("n", i/2), UUID: fmt.Sprint("GPU-", i), Serial: fmt.Sprint("S", i), First: october, Last: october, Scrapes: 1})
	}
	return archived(t, h)
}

// TestList checks the answers about lists of names: a spreadsheet with warranty dates, a column in a flag, and lines
// from standard input. The answers must be in the order of the list, and must contain a row for each unknown name.
func TestList(t *testing.T) {
	folder := rack(t)
	var clerk strings.Builder
	clerk.WriteString("\ufeffItem;Serial Number;Warranty;Shelf\n")
	var want, warranties []string
	for i := range 30 {
		serial, until := fmt.Sprint("S", (i*7+3)%40), fmt.Sprintf("2029-01-%02d", i+1)
		if i == 11 {
			serial = "S99"
		}
		fmt.Fprintf(&clerk, "%d;%s;%s;a \n", i, serial, until)
		want, warranties = append(want, serial), append(warranties, until)
	}
	clerk.WriteString(";;;\n")
	list := file(t, clerk.String())
	for name, args := range map[string][]string{"where": {"where"}, "history": {"history"}} {
		r := runWith(t, "", append(args, "--names="+list, "--assets="+list, "--books="+folder, "-o", "csv")...)
		if diff := cmp.Diff(want, column(t, r.out, "name")); diff != "" || r.status != 1 || !strings.Contains(r.err, `"S99" is unknown`) {
			t.Errorf("%s: exit status %d, %s (-want +got):\n%s", name, r.status, r.err, diff)
		}
		if name == "where" {
			if diff := cmp.Diff(warranties, column(t, r.out, "warranty")); diff != "" {
				t.Errorf("warranties (-want +got):\n%s", diff)
			}
			if states := column(t, r.out, "state"); states[11] != "unknown" || states[10] == "unknown" {
				t.Errorf("states %q", states)
			}
		} else if begins := column(t, r.out, "start_event"); begins[11] != "unknown" || begins[10] == "unknown" {
			t.Errorf("starts %q", begins)
		}
	}
	for _, tt := range []struct {
		input, args string
		want        string // expected names
		status      int
		text        string
	}{
		{"S5\n\n S3 \r\nS4\n", "where -", "S5 S3 S4", 0, ""},
		{"S5\nS3\nS5", "where --names=-", "S5 S3 S5", 0, ""},
		{"serial\nS5\nS3\n", "where -", "S5 S3", 0, ""},
		{"S5\n", "where S9 - S8", "S9 S5 S8", 0, ""},
		{"n0\nS1\nn7\n", "where -", "n0 n0 S1 n7 n7", 0, ""},
		{"S5\nSX\n", "history -", "S5 SX", 1, `"SX" is unknown`},
		{"a,b\n1,S2\n2,S1\n", "where - --names.column=b", "S2 S1", 0, ""},
		{"a,b\n1,S2\n", "where -", "", 2, "--names=-: there is no column with serial numbers: name it with --names.column=HEADER"},
		{"a,b\n1,S2\n", "where - --names.column=c", "", 2, `there is no column "c": the list has the columns "a", "b"`},
		{"", "where -", "", 2, "empty"},
		{"serial\n", "where -", "", 2, "contains no names"},
		{"", "where --names=/nowhere/list.csv", "", 2, "--names"},
		{"", "where S1 --names.column=c", "", 2, "--names.column needs --names"},
		{"", "where", "", 2, "where needs SERIAL…"},
	} {
		r := runWith(t, tt.input, append(strings.Fields(tt.args), "--books="+folder, "-o", "csv")...)
		if got := strings.Join(column(t, r.out, "name"), " "); got != tt.want || r.status != tt.status || !strings.Contains(r.err, tt.text) {
			t.Errorf("%s of %q: exit status %d, %q, want %d, %q with %q\n%s", tt.args, tt.input, r.status, got, tt.status, tt.want, tt.text, r.err)
		}
	}
	if r := runWith(t, "", "where", "S3", "--assets="+list, "--books="+folder); !strings.Contains(r.out, "WARRANTY") || !strings.Contains(r.out, "2029-01-01") {
		t.Errorf("where prints no warranty: exit status %d\n%s%s", r.status, r.out, r.err)
	}
	r := runWith(t, "S5\nS98\nS3\n", "report", "-", "--books="+folder)
	five, unknown, three := strings.Index(r.out, "# Board S5\n"), strings.Index(r.out, "# Board S98\n"), strings.Index(r.out, "# Board S3\n")
	if r.status != 1 || five < 0 || unknown < five || three < unknown || !strings.Contains(r.out, "no board, node or chassis") {
		t.Errorf("report: exit status %d\n%s%s", r.status, r.out, r.err)
	}
	r = runWith(t, "S5\nS3\n", "report", "-", "--books="+folder, "-o", "html")
	if r.status != 0 || strings.Count(r.out, "<h1>") != 2 || strings.Count(r.out, "</html>") != 1 || strings.Count(r.out, "<!DOCTYPE") != 1 {
		t.Errorf("report as HTML: exit status %d\n%s%s", r.status, r.out, r.err)
	}
}

// TestLongAbsence asks about a list of many boards. The answer must include boards that were last seen long ago.
func TestLongAbsence(t *testing.T) {
	first, last := &table.Hour{}, &table.Hour{}
	for i := range 20 {
		first.GPUs = append(first.GPUs, table.GPU{Node: "n1", UUID: fmt.Sprint("GPU-", i), Serial: fmt.Sprint("S", i), First: october, Last: october, Scrapes: 1})
	}
	hours := []*table.Hour{first}
	for range 20 * 24 {
		hours = append(hours, &table.Hour{})
	}
	last.GPUs = []table.GPU{{Node: "n1", UUID: "GPU-0", Serial: "S0", First: october.AddDate(0, 0, 20).Add(2 * 60e9), Last: october.AddDate(0, 0, 20).Add(3 * 60e9), Scrapes: 1}}
	folder := archived(t, append(hours, last)...)
	r := run(t, "where", "n1", "--books="+folder, "--to=2026-10-22", "-o", "csv")
	if got := column(t, r.out, "serial"); len(got) != 20 {
		t.Errorf("exit status %d, %d boards\n%s%s", r.status, len(got), r.out, r.err)
	}
}
