package ask_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestZoneOfErrors checks that --tz changes the times of errors only in text. On October 25, 2026, at 1 o'clock UTC,
// clocks in Berlin are turned back from 3 to 2 o'clock, so both errors have the same local time.
func TestZoneOfErrors(t *testing.T) {
	var hours []*table.Hour
	for n := range 2 {
		start := time.Date(2026, 10, 25, n, 0, 0, 0, time.UTC)
		g := table.GPU{Node: "n1", UUID: "GPU-1", Serial: "S1", First: start, Last: start.Add(59 * time.Minute), Scrapes: 60, XIDs: table.Counts{"79": 1}}
		hours = append(hours, &table.Hour{Cluster: "east", Start: start, GPUs: []table.GPU{g}})
	}
	folder := bookstest.File(t, "csv", hours...)
	for format, want := range map[string]string{
		"text": "79 at 2026-10-25 02h, 79 at 2026-10-25 02h\n",
		"json": `"xids": "79 at 2026-10-25 01h, 79 at 2026-10-25 00h"`,
		"csv":  `,"79 at 2026-10-25 01h, 79 at 2026-10-25 00h",`,
	} {
		r := run(t, "where", "S1", "--at=2026-10-25T02", "--tz=Europe/Berlin", "-o", format, "--books="+folder)
		if r.status != 0 || !strings.Contains(r.out, want) {
			t.Errorf("%s: exit status %d, want %s:\n%s%s", format, r.status, want, r.out, r.err)
		}
	}
}
