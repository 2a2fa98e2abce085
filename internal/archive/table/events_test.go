package table_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// EventRows must return only events for the table of events, and only snapshots for the table of snapshots. It must
// mark events whose time was rejected.
func TestEventRows(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 30, 0, 5e6, time.UTC)
	arrived := time.Date(2026, 3, 2, 7, 45, 0, 0, time.UTC)
	arrival := time.Date(2026, 3, 2, 7, 0, 0, 0, time.UTC)
	hour := func(at time.Time) time.Time {
		return time.Date(at.Year(), at.Month(), at.Day(), at.Hour(), 0, 0, 0, time.UTC)
	}
	tests := []struct {
		at, wantHour, wantAt time.Time
		wantMark             string
	}{
		{at, hour(at), at, ""},
		{at.In(time.FixedZone("", 1800)), hour(at), at, ""},
		{arrived.AddDate(0, -13, 0), time.Date(2025, 2, 2, 7, 0, 0, 0, time.UTC), arrived.AddDate(0, -13, 0), ""},
		{arrived.AddDate(0, -13, -1), arrival, arrived.AddDate(0, -13, -1), "arrival"},
		{arrived.Add(24 * time.Hour), time.Date(2026, 3, 3, 7, 0, 0, 0, time.UTC), arrived.Add(24 * time.Hour), ""},
		{arrived.Add(25 * time.Hour), arrival, arrived.Add(25 * time.Hour), "arrival"},
		{time.Unix(0, 0), arrival, time.Time{}, "arrival"},
		{time.Time{}, arrival, time.Time{}, "arrival"},
		{time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC), arrival, time.Time{}, "arrival"},
	}
	for _, tt := range tests {
		events := table.Place([]event.Event{{Kind: "phase", ID: "a", At: tt.at}, {Kind: event.Snapshot, ID: "b", At: tt.at}}, arrived)
		rows := append(table.EventRows(table.Events, "east", events), table.EventRows(table.Snapshots, "east", events)...)
		want := [][]any{{"east", tt.wantHour, tt.wantAt, "a", tt.wantMark}, {"east", tt.wantHour, tt.wantAt, "b", tt.wantMark}}
		for i, row := range rows {
			rows[i] = append(row[:4:4], row[len(row)-1])
		}
		if diff := cmp.Diff(want, rows); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.at, diff)
		}
	}
}

// TestNewMonths sends an event for every month since 2015 in one request. Only four months may have rows: the month of
// the arrival, the previous month, and two others.
func TestNewMonths(t *testing.T) {
	arrived := time.Date(2026, 3, 2, 7, 45, 0, 0, time.UTC)
	var events []event.Event
	for at := time.Date(2015, 1, 15, 0, 0, 0, 0, time.UTC); at.Year() < 2100; at = at.AddDate(0, 1, 0) {
		events = append(events, event.Event{Kind: "phase", ID: at.String(), At: at})
	}
	months := make(map[string]int)
	for _, row := range table.EventRows(table.Events, "east", table.Place(events, arrived)) {
		months[row[1].(time.Time).Format("2006-01")]++
	}
	want := map[string]int{"2025-02": 1, "2025-03": 1, "2026-02": 1, "2026-03": len(events) - 3}
	if diff := cmp.Diff(want, months); diff != "" {
		t.Errorf("events by month (-want +got):\n%s", diff)
	}
}

// The escaped name of a cluster is the name of a folder, after "cluster=". The file system limits the length of this
// name.
func TestCheckCluster(t *testing.T) {
	dir := t.TempDir()
	names := []string{
		"a", "east-1", "..", "a/b", "%", "É", "\U0001F600", strings.Repeat("A", 200), strings.Repeat("A", 201), strings.Repeat("A", 253),
		strings.Repeat("%", 66), strings.Repeat("%", 67), strings.Repeat("\U0001F600", 16), strings.Repeat("\U0001F600", 17), "", "a\x00", "a\nb", "a\x1b[31m", "\xff",
	}
	for _, name := range names {
		err := table.CheckCluster(name)
		folder := os.Mkdir(filepath.Join(dir, "cluster="+url.PathEscape(name)), 0o700)
		if err == nil && folder != nil {
			t.Errorf("%.20q is accepted, but a folder cannot have it: %v", name, folder)
		}
		control := strings.ContainsAny(name, "\x00\n\x1b") || name == "\xff" || name == ""
		if want := !control && len(url.PathEscape(name)) <= 200; (err == nil) != want {
			t.Errorf("%.20q (%d bytes): error %v, want valid: %t", name, len(name), err, want)
		}
	}
}
