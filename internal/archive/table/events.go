package table

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/event"
)

var filedByColumn = computed("filed_by", Text, "normally empty; arrival if the event is in the hour of its arrival, because its own time was more than 13 months old or more than a day ahead, or because its request contained events of too many months", func(_ *Hour, e *Event) any { return filedBy(e) }).addedIn(5)

// Events contains a row for each event of a pod or workload.
var Events = build("events", "a change of a GPU pod or of a workload", []string{"id"},
	func(h *Hour) []Event { return h.Events },
	moment("at", "time of the change, according to the sender", func(e *Event) *time.Time { return &e.At }),
	long("id", "identifies the event in its cluster", func(e *Event) *string { return &e.ID }),
	long("event", "kind of event: phase, condition, failure, spec, deleted, workload_created, workload_ended", func(e *Event) *string { return &e.Kind }),
	long("namespace", "namespace of the pod or workload", func(e *Event) *string { return &e.Namespace }),
	long("pod", "name of the pod, empty for a workload", func(e *Event) *string { return &e.Pod }),
	long("pod_uid", "UID of the pod", func(e *Event) *string { return &e.PodUID }),
	long("resource_version", "version of the pod in which the change was seen", func(e *Event) *string { return &e.ResourceVersion }),
	long("node", "node of the pod", func(e *Event) *string { return &e.Node }),
	long("owner_kind", "kind of the controller of the pod or workload", func(e *Event) *string { return &e.OwnerKind }),
	long("owner_name", "name of the controller", func(e *Event) *string { return &e.OwnerName }),
	long("workload_kind", "kind of the workload, empty for a pod", func(e *Event) *string { return &e.WorkloadKind }),
	long("workload_name", "name of the workload", func(e *Event) *string { return &e.WorkloadName }),
	long("workload_uid", "UID of the workload", func(e *Event) *string { return &e.WorkloadUID }),
	computed("detail", Text, "JSON object with the fields of this kind of event", func(_ *Hour, e *Event) any { return object(e.Details) }),
	filedByColumn,
)

// Snapshots contains a row for each version of a pod that the reconciler sent.
var Snapshots = build("snapshots", "one version of a GPU pod, without commands, arguments and environment values", []string{"id"},
	func(h *Hour) []Event { return h.Snapshots },
	moment("at", "time of the version", func(e *Event) *time.Time { return &e.At }),
	long("id", "identifies the version in its cluster", func(e *Event) *string { return &e.ID }),
	long("namespace", "namespace of the pod", func(e *Event) *string { return &e.Namespace }),
	long("pod", "name of the pod", func(e *Event) *string { return &e.Pod }),
	long("pod_uid", "UID of the pod", func(e *Event) *string { return &e.PodUID }),
	long("resource_version", "version of the pod", func(e *Event) *string { return &e.ResourceVersion }),
	long("node", "node of the pod", func(e *Event) *string { return &e.Node }),
	computed("object", Text, "the pod as JSON", func(_ *Hour, e *Event) any { return object(e.Object) }),
	filedByColumn,
)

// Appended contains the tables whose rows never change. A row whose key is already in the table is a duplicate. The
// first columns of these tables are cluster, hour, at and id.
var Appended = []Table{Events, Snapshots}

// IsAppended reports whether the table is one of [Appended].
func (t Table) IsAppended() bool {
	return slices.ContainsFunc(Appended, func(a Table) bool { return a.Name == t.Name })
}

// Event is an event with the hour of its row.
type Event struct {
	event.Event
	Hour time.Time
	// ByArrival is set if Hour is the hour of arrival and not the hour of the event.
	ByArrival bool
}

const (
	// An event may be up to maxMonths old, and up to maxAhead ahead of the receiver's clock.
	maxMonths = 13
	maxAhead  = 24 * time.Hour
	// A request may contain events of the current month, the previous month and maxNewMonths other months. A month may
	// need a new database partition or a new folder.
	maxNewMonths = 2
)

// Place returns the events of a request with the hours of their rows. This is usually the hour of the event. It is the
// hour of the arrival if the event is too old or too far ahead, or if the request contains too many months.
func Place(events []event.Event, arrived time.Time) []Event {
	arrived = arrived.UTC()
	months := map[time.Time]bool{Month(arrived): true, Month(arrived).AddDate(0, -1, 0): true}
	all := make([]Event, len(events))
	for i, e := range events {
		month := Month(e.At)
		accepted := !e.At.Before(arrived.AddDate(0, -maxMonths, 0)) && !e.At.After(arrived.Add(maxAhead)) && (months[month] || len(months) < maxNewMonths+2)
		all[i] = Event{Event: e, Hour: e.At.UTC().Truncate(time.Hour)}
		if accepted {
			months[month] = true
		} else {
			all[i].Hour, all[i].ByArrival = arrived.Truncate(time.Hour), true
		}
		if e.At.Before(firstEvent) || e.At.After(lastEvent) {
			all[i].At = time.Time{}
		}
	}
	return all
}

// EventRows converts the events of a cluster to rows of one of the tables [Appended].
func EventRows(t Table, cluster string, events []Event) (rows [][]any) {
	for _, e := range events {
		h := &Hour{Cluster: cluster, Start: e.Hour}
		if e.Kind == event.Snapshot {
			h.Snapshots = []Event{e}
		} else {
			h.Events = []Event{e}
		}
		rows = append(rows, t.Rows(h)...)
	}
	return rows
}

// Every sink can store times in this range. A time outside the range counts as unknown.
var (
	firstEvent = time.Date(2015, 1, 1, 0, 0, 0, 0, time.UTC)
	lastEvent  = time.Date(2100, 1, 1, 0, 0, 0, -1, time.UTC)
)

func filedBy(e *Event) string {
	if e.ByArrival {
		return "arrival"
	}
	return ""
}

func object(text []byte) string {
	if len(text) == 0 {
		return "{}"
	}
	return string(text)
}
