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
	long("id", "identifies the event in its cluster", func(e *event.Event) string { return e.ID }),
	long("event", "kind of event: phase, condition, failure, spec, deleted, workload_created, workload_ended", func(e *event.Event) string { return e.Kind }),
	long("namespace", "namespace of the pod or workload", func(e *event.Event) string { return e.Namespace }),
	long("pod", "name of the pod, empty for a workload", func(e *event.Event) string { return e.Pod }),
	long("pod_uid", "UID of the pod", func(e *event.Event) string { return e.PodUID }),
	long("resource_version", "version of the pod in which the change was seen", func(e *event.Event) string { return e.ResourceVersion }),
	long("node", "node of the pod", func(e *event.Event) string { return e.Node }),
	long("owner_kind", "kind of the controller of the pod or workload", func(e *event.Event) string { return e.OwnerKind }),
	long("owner_name", "name of the controller", func(e *event.Event) string { return e.OwnerName }),
	long("workload_kind", "kind of the workload, empty for a pod", func(e *event.Event) string { return e.WorkloadKind }),
	long("workload_name", "name of the workload", func(e *event.Event) string { return e.WorkloadName }),
	long("workload_uid", "UID of the workload", func(e *event.Event) string { return e.WorkloadUID }),
	long("detail", "JSON object with the fields of this kind of event", func(e *event.Event) string { return object(e.Details) }),
)

// Snapshots has a row for each version of a pod that was sent.
var Snapshots = build("snapshots", "a GPU pod at a version, without commands, arguments and environment values", []string{"id"},
	func(h *Hour) []event.Event { return h.Snapshots },
	moment("at", "time of the version", func(e *event.Event) time.Time { return e.At }),
	long("id", "identifies the version in its cluster", func(e *event.Event) string { return e.ID }),
	long("namespace", "namespace of the pod", func(e *event.Event) string { return e.Namespace }),
	long("pod", "name of the pod", func(e *event.Event) string { return e.Pod }),
	long("pod_uid", "UID of the pod", func(e *event.Event) string { return e.PodUID }),
	long("resource_version", "version of the pod", func(e *event.Event) string { return e.ResourceVersion }),
	long("node", "node of the pod", func(e *event.Event) string { return e.Node }),
	long("object", "the pod as JSON", func(e *event.Event) string { return object(e.Object) }),
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
