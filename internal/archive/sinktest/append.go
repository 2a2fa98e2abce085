package sinktest

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/table"
	"github.com/gpuledger/gpuledger/internal/event"
)

// Appender is a sink that stores events.
type Appender interface {
	Append(ctx context.Context, t table.Table, rows [][]any) error
}

// Events returns events whose strings require quotes. They are an event, a snapshot of the same version, events in
// other hours, days and months, and an event without a time. All of them arrive at the time of the first event.
func Events() []table.Event {
	at := Noon.Add(30*time.Minute + 5*time.Millisecond)
	e := event.Event{
		Kind: "condition", ID: "u/condition/é", At: at, Namespace: "ml", Pod: "p, \"q\" \\ 'r'", PodUID: "u", ResourceVersion: "7", Node: "a", OwnerKind: "Job", OwnerName: "j",
		Details: json.RawMessage(`{"from":"\"\\\n;\n--'"}`),
	}
	snapshot := event.Event{
		Kind: event.Snapshot, ID: "u/snapshot/7", At: at, Namespace: "ml", Pod: "p", PodUID: "u",
		Object: json.RawMessage(`{"spec":"` + strings.Repeat("é\U0001F600", 20_000) + `"}`),
	}
	workload := event.Event{Kind: "workload_created", ID: "w/workload_created", At: at.AddDate(0, -1, 0), Namespace: "ml", WorkloadKind: "Job", WorkloadName: "j", WorkloadUID: "w"}
	all := []event.Event{e, snapshot, workload}
	for id, at := range map[string]time.Time{"hour": at.Add(time.Hour), "day": at.AddDate(0, 0, 1), "future": at.AddDate(70, 0, 0), "unknown": {}} {
		all = append(all, event.Event{Kind: "phase", ID: id, At: at})
	}
	all = append(all, event.Event{Kind: "phase", ID: strings.Repeat("x", event.MaxID), At: at, OwnerName: strings.Repeat("é", event.MaxText/2)})
	return table.Place(all, at)
}

// TestAppend checks that a sink adds each event once.
func TestAppend(t *testing.T, open func(t *testing.T) (Appender, Rows)) {
	s, rows := open(t)
	all := Events()
	half := all[:len(all)/2]
	late := slices.Clone(all)
	late[0].Node = "another" // of two events with the same id, the first is kept
	for _, events := range [][]table.Event{half, append(slices.Clone(half), half...), late, all} {
		for _, cluster := range []string{Cluster, "west"} {
			for _, of := range table.Appended {
				check(t, s.Append(t.Context(), of, table.EventRows(of, cluster, events)))
			}
		}
	}
	for _, of := range table.Appended {
		var want [][]string
		for _, row := range append(table.EventRows(of, Cluster, all), table.EventRows(of, "west", all)...) {
			want = append(want, formatted(row))
		}
		if diff := Diff(sorted(want), sorted(rows(of))); diff != "" {
			t.Errorf("%s (-want +filed):\n%s", of.Name, diff)
		}
	}
}

func formatted(row []any) (texts []string) {
	for _, value := range row {
		texts = append(texts, table.Format(value))
	}
	return texts
}
