package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// use is the energy (in kWh) and the GPU hours that a namespace uses in an hour.
type use struct {
	namespace     string
	kWh, gpuHours int64
}

// fileUses files hours of a board that namespaces use. An empty namespace means idle energy.
func fileUses(t *testing.T, hours map[time.Time][]use) (folder string) {
	t.Helper()
	var all []*table.Hour
	for start, uses := range hours {
		h := &table.Hour{Cluster: "east", Start: start, GPUs: []table.GPU{{Node: "n1", UUID: "GPU-1", Model: "H100", First: start, Last: start, Scrapes: 1}}}
		for _, u := range uses {
			c := table.Charge{Node: "n1", UUID: "GPU-1", Namespace: u.namespace, Energy: u.kWh * kWh, GPUTime: u.gpuHours * 3_600_000}
			if c.Reason = "idle"; u.namespace != "" {
				c.Reason, c.Pod, c.PodUID = "", "p", u.namespace
			}
			h.GPUs[0].Energy += c.Energy
			h.Charges = append(h.Charges, c)
		}
		all = append(all, h)
	}
	return bookstest.File(t, "csv", all...)
}

// TestCompare checks the change of each line since the previous month, with each month's prices. Some lines exist in
// only one month.
func TestCompare(t *testing.T) {
	folder := fileUses(t, map[time.Time][]use{
		october.AddDate(0, -1, 3): {{"old", 2, 1}, {"ml", 4, 2}, {"", 1, 0}},
		october.AddDate(0, 0, 5):  {{"new", 3, 1}, {"ml", 6, 1}},
		october.AddDate(0, 0, 6):  {{"ml", 1, 0}, {"", 1, 0}},
	})
	list := file(t, "from,until,per_kwh,per_gpu_hour,currency\n2026-09-01,2026-10-01,0.5,1,EUR\n2026-10-01,,0.25,1,EUR\n")
	want := `NAMESPACE       KWH     BEFORE  CHANGE     GPU HOURS  BEFORE  CHANGE     COST EUR  BEFORE  CHANGE
ml              7.000   4.000   +75.0 %    1.00       2.00    -50.0 %    2.75      4.00    -31.2 %
new             3.000   -       -          1.00       -       -          1.75      -       -
old             -       2.000   -100.0 %   -          1.00    -100.0 %   -         2.00    -100.0 %
(unattributed)  1.000   1.000   +0.0 %     0.00       0.00    -          0.25      0.50    -50.0 %
TOTAL           11.000  7.000   +57.1 %    2.00       3.00    -33.3 %    4.75      6.50    -26.9 %
`
	r := run(t, "statement", "--compare", "--by=namespace", "--month=2026-10", "--books="+folder, "--prices="+list)
	table, notices, _ := strings.Cut(r.out, "!")
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(table)); diff != "" || r.status != 0 {
		t.Errorf("exit status %d, %s (-want +got):\n%s\n%s", r.status, r.err, diff, r.out)
	}
	for _, notice := range []string{" compared with 2026-09-01 00:00 to 2026-10-01 00:00\n", " incomplete: 742 of 744 hours of east", " before: incomplete: 719 of 720 hours of east"} {
		if !strings.Contains(notices, notice) {
			t.Errorf("no notice %q:\n%s", notice, r.out)
		}
	}
	for name, tt := range map[string]struct{ args, want string }{
		"default is the last month": {"", "compared with 2026-09-01 00:00 to 2026-10-01 00:00"},
		"a day":                     {"--from=2026-10-07 --to=2026-10-08", "compared with 2026-10-06 00:00 to 2026-10-07 00:00"},
		"nothing before":            {"--month=2026-09", "before: " + folder + " has no hours from 2026-08-01 00:00"},
		"CSV":                       {"--month=2026-10 -o csv", "\ngroup,new,10800000000,,,3600000,,,false\n"},
	} {
		r := run(t, append(strings.Fields("statement --compare --by=namespace "+tt.args), "--books="+folder)...)
		if r.status != 0 || !strings.Contains(r.out+r.err, tt.want) {
			t.Errorf("%s: exit status %d, want %q\n%s%s", name, r.status, tt.want, r.out, r.err)
		}
	}
	if r := run(t, "statement", "--compare", "--format=focus", "--books="+folder); r.status != 1 || !strings.Contains(r.err, "--compare") {
		t.Errorf("FOCUS: exit status %d\n%s%s", r.status, r.out, r.err)
	}
}
