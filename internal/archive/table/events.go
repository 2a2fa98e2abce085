package table

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/event"
)

// Events has a row for each event of a pod or workload.
var Events = build("events", "a change of a GPU pod or of a workload", []string{"id"},
	func(h *Hour) []event.Event { return h.Events },
	moment("at", "time of the change", func(e *event.Event) time.Time { return e.At }),
	text("id", "identifies the event in its cluster", func(e *event.Event) string { return e.ID }),
	text("event", "kind of event: phase, condition, failure, spec, deleted, workload_created, workload_ended", func(e *event.Event) string { return e.Kind }),
	text("namespace", "namespace of the pod or workload", func(e *event.Event) string { return e.Namespace }),
	text("pod", "name of the pod, empty for a workload", func(e *event.Event) string { return e.Pod }),
	text("pod_uid", "UID of the pod", func(e *event.Event) string { return e.PodUID }),
	text("resource_version", "version of the pod in which the change was seen", func(e *event.Event) string { return e.ResourceVersion }),
	text("node", "node of the pod", func(e *event.Event) string { return e.Node }),
	text("owner_kind", "kind of the controller of the pod or workload", func(e *event.Event) string { return e.OwnerKind }),
	text("owner_name", "name of the controller", func(e *event.Event) string { return e.OwnerName }),
	text("workload_kind", "kind of the workload, empty for a pod", func(e *event.Event) string { return e.WorkloadKind }),
	text("workload_name", "name of the workload", func(e *event.Event) string { return e.WorkloadName }),
	text("workload_uid", "UID of the workload", func(e *event.Event) string { return e.WorkloadUID }),
	text("detail", "JSON object with the fields of this kind of event", func(e *event.Event) string { return object(e.Details) }),
)

// Snapshots has a row for each version of a pod that was sent.
var Snapshots = build("snapshots", "a GPU pod at a version, without commands, arguments and environment values", []string{"id"},
	func(h *Hour) []event.Event { return h.Snapshots },
	moment("at", "time of the version", func(e *event.Event) time.Time { return e.At }),
	text("id", "identifies the version in its cluster", func(e *event.Event) string { return e.ID }),
	text("namespace", "namespace of the pod", func(e *event.Event) string { return e.Namespace }),
	text("pod", "name of the pod", func(e *event.Event) string { return e.Pod }),
	text("pod_uid", "UID of the pod", func(e *event.Event) string { return e.PodUID }),
	text("resource_version", "version of the pod", func(e *event.Event) string { return e.ResourceVersion }),
	text("node", "node of the pod", func(e *event.Event) string { return e.Node }),
	text("object", "the pod as JSON", func(e *event.Event) string { return object(e.Object) }),
)

// Appended are the tables whose rows are only added. Rows with the same key are repetitions. The
// columns begin with cluster, hour, at and id.
var Appended = []Table{Events, Snapshots}

// EventRows returns the rows of the events of a cluster in one of these tables.
func EventRows(t Table, cluster string, events []event.Event) (rows [][]any) {
	for _, e := range events {
		h := &Hour{Hour: &fold.Hour{Cluster: cluster, Start: e.At.UTC().Truncate(time.Hour)}}
		if e.At.Before(firstEvent) || e.At.After(lastEvent) {
			h.Start, e.At = firstEvent, time.Time{}
		}
		if e.Kind == event.Snapshot {
			h.Snapshots = []event.Event{e}
		} else {
			h.Events = []event.Event{e}
		}
		rows = append(rows, t.Rows(h)...)
	}
	return rows
}

// The times of events. The clock of a node may have any other; the event is then filed in the first
// hour, without a time.
var (
	firstEvent = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	lastEvent  = time.Date(2100, 1, 1, 0, 0, 0, -1, time.UTC)
)

// object returns a JSON object as text.
func object(text []byte) string {
	if len(text) == 0 {
		return "{}"
	}
	return string(text)
}
