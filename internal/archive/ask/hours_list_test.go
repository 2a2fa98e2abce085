package ask_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/books/bookstest"
	"github.com/gpuledger/gpuledger/internal/archive/sinktest"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// TestHours checks that consecutive hours with the same state and reason share a row, and that the rows of missing and
// accepted hours contain the command that files them.
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
	r := run(t, "hours", "--books="+bookstest.File(t, "csv", hours...), "--from=2026-10-01", "--to=2026-10-01T09")
	if diff := cmp.Diff(want, r.out); diff != "" || r.status != 0 {
		t.Errorf("exit status %d, %s (-want +got):\n%s", r.status, r.err, diff)
	}
}
