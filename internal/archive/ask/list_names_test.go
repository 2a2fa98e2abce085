package ask_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// rack writes an archive of one hour. It contains the boards S0 to S39, two on each node.
func rack(t *testing.T) string {
	h := &table.Hour{}
	for i := range 40 {
		h.GPUs = append(h.GPUs, table.GPU{Node: fmt.Sprint("n", i/2), UUID: fmt.Sprint("GPU-", i), Serial: fmt.Sprint("S", i), First: october, Last: october, Scrapes: 1})
	}
	return archived(t, h)
}

// TestList checks the answers about lists of names. The lists are a spreadsheet with warranty dates, a CSV file with a
// column that a flag selects, and lines on standard input. The answers must keep the order of the list, and must
// contain a row for each unknown name.
func TestList(t *testing.T) {
	folder, now := rack(t), october.AddDate(0, 1, 2)
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
	for command, state := range map[string]string{"where": "state", "history": "start_event"} {
		r := run(t, command, "--names="+list, "--assets="+list, "--books="+folder, "-o", "csv")
		r.has(1, `"S99" is unknown`)
		r.lists([]string{"name"}, want...)
		if states := r.columns(state); states[11] != "unknown" || states[10] == "unknown" {
			t.Errorf("%s: states %q", command, states)
		}
		if command == "where" {
			r.lists([]string{"warranty"}, warranties...)
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
		r := runAt(t, now, tt.input, append(strings.Fields(tt.args), "--books="+folder, "-o", "csv")...)
		r.has(tt.status, tt.text)
		if got := strings.Join(r.columns("name"), " "); got != tt.want {
			t.Errorf("%s of %q: %q, want %q", tt.args, tt.input, got, tt.want)
		}
	}
	run(t, "where", "S3", "--assets="+list, "--books="+folder).has(0, "WARRANTY", "2029-01-01")
	r := runAt(t, now, "S5\nS98\nS3\n", "report", "-", "--books="+folder)
	five, unknown, three := strings.Index(r.out, "# Board S5\n"), strings.Index(r.out, "# Board S98\n"), strings.Index(r.out, "# Board S3\n")
	if r.has(1, "no board, node or chassis"); five < 0 || unknown < five || three < unknown {
		t.Errorf("report: the order of the boards differs:\n%s", r.out)
	}
	r = runAt(t, now, "S5\nS3\n", "report", "-", "--books="+folder, "-o", "html")
	if r.status != 0 || strings.Count(r.out, "<h1>") != 2 || strings.Count(r.out, "</html>") != 1 || strings.Count(r.out, "<!DOCTYPE") != 1 {
		t.Errorf("report as HTML: exit status %d\n%s%s", r.status, r.out, r.err)
	}
}

// TestLongAbsence checks an answer about many boards. It must include boards that were last scraped long ago.
func TestLongAbsence(t *testing.T) {
	const last = 20 * 24
	folder := bookstest.File(t, "csv", hourly(last+1, func(n int, h *table.Hour) {
		for i := range map[int]int{0: 20, last: 1}[n] {
			h.GPUs = append(h.GPUs, present(h.Start, "n1", fmt.Sprint("GPU-", i), fmt.Sprint(i), "H100"))
		}
	})...)
	r := run(t, "where", "n1", "--books="+folder, "--to=2026-10-22", "-o", "csv")
	if got := r.columns("serial"); len(got) != 20 {
		t.Errorf("exit status %d, %d boards\n%s%s", r.status, len(got), r.out, r.err)
	}
}
