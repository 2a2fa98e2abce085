package table_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// TestEventRows checks the hours and times of events, and that a snapshot is in its own table only.
func TestEventRows(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 5e6, time.UTC)
	first := time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	tests := []struct{ at, wantHour, wantAt time.Time }{
		{at, at.Truncate(time.Hour), at},
		{at.In(time.FixedZone("", 1800)), at.Truncate(time.Hour), at},
		{time.Unix(0, 0), first, time.Time{}},
		{time.Time{}, first, time.Time{}},
		{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), first, time.Time{}},
	}
	for _, tt := range tests {
		events := []event.Event{{Kind: "phase", ID: "a", At: tt.at}, {Kind: event.Snapshot, ID: "b", At: tt.at}}
		rows := append(table.EventRows(table.Events, "east", events), table.EventRows(table.Snapshots, "east", events)...)
		want := [][]any{{"east", tt.wantHour, tt.wantAt, "a"}, {"east", tt.wantHour, tt.wantAt, "b"}}
		for i := range rows {
			rows[i] = rows[i][:4]
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.at, diff)
		}
	}
}
