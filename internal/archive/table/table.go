// Package table defines the tables of the archive, identical in every sink.
package table

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Type is the type of a column.
type Type int

// The types of columns.
const (
	Text Type = iota // string, empty if unknown
	Int              // int64
	Time             // time.Time in UTC, zero if unknown
)

// Column is a column of a table.
type Column struct {
	Name string
	Type Type
	Help string

	added bool
}

// Table is a table of the archive. The rows of a cluster and hour are replaced together, except in
// [Corrections] and [Appended].
type Table struct {
	Name    string
	Help    string
	Columns []Column
	// Key are the columns that identify a row.
	Key []string
	// Rows returns the rows of an hour, sorted. Values are strings, int64 and time.Time.
	Rows func(h *Hour) [][]any
}

// Hour is an hour as it is filed.
type Hour struct {
	*fold.Hour
	Filed
	// State describes how the hour was filed.
	State State
	// SilentNodes is the number of nodes without samples and without failed scrapes. ExplainedNodes
	// is the number of silent nodes that were removed, drained or renamed.
	SilentNodes, ExplainedNodes int
	// Corrections are the differences from what is filed, if the month is closed.
	Corrections []fold.Charge
	// Events and Snapshots are rows of the tables of the same name, see [EventRows].
	Events, Snapshots []Event
}

// Filed identifies the data of an hour in a sink. It is zero if the hour is not filed.
type Filed struct {
	Revision int64  // 1 for the first
	Digest   string // SHA-256 of the rows
	Reason   string // of the operator who accepted gaps
	Pruned   bool   // the rows are deleted
}

// State describes how an hour was filed.
type State string

// The states of filed hours.
const (
	Complete  State = "complete"
	Gaps      State = "gaps"      // an operator accepted missing samples
	Corrected State = "corrected" // changed by corrections after its month was closed
	Pruned    State = "pruned"    // its rows are deleted
)

// column is a column with its value in a row of T.
type column[T any] struct {
	Column
	value func(h *Hour, row *T) any
}

// build returns a table. Its first columns are cluster and hour, and so are those of its key.
func build[T any](name, help string, key []string, rows func(*Hour) []T, columns ...column[T]) Table {
	columns = append([]column[T]{
		{Column{Name: "cluster", Type: Text, Help: "external label of the Prometheus"}, func(h *Hour, _ *T) any { return h.Cluster }},
		{Column{Name: "hour", Type: Time, Help: "start of the hour"}, func(h *Hour, _ *T) any { return h.Start }},
	}, columns...)
	t := Table{Name: name, Help: help, Key: append([]string{"cluster", "hour"}, key...)}
	for _, c := range columns {
		c.added = slices.Contains(added[name], c.Name)
		t.Columns = append(t.Columns, c.Column)
	}
	t.Rows = func(h *Hour) (all [][]any) {
		source := rows(h)
		for i := range source {
			row := make([]any, len(columns))
			for j, c := range columns {
				row[j] = c.value(h, &source[i])
			}
			all = append(all, row)
		}
		return all
	}
	return t
}

// text is a column with the value of a label. One with more than [MaxText] bytes is shortened.
func text[T any](name, help string, value func(*T) string) column[T] {
	return column[T]{Column{Name: name, Type: Text, Help: help}, func(_ *Hour, row *T) any { return shorten(value(row)) }}
}

// long is a column with a text that has another limit, or is a list.
func long[T any](name, help string, value func(*T) string) column[T] {
	return column[T]{Column{Name: name, Type: Text, Help: help}, func(_ *Hour, row *T) any { return value(row) }}
}

func integer[T any](name, help string, value func(*T) int64) column[T] {
	return column[T]{Column{Name: name, Type: Int, Help: help}, func(_ *Hour, row *T) any { return value(row) }}
}

func moment[T any](name, help string, value func(*T) time.Time) column[T] {
	return column[T]{Column{Name: name, Type: Time, Help: help}, func(_ *Hour, row *T) any { return value(row) }}
}

// GPUHours has a row for each GPU and hour.
var GPUHours = build("gpu_hours", "a GPU in an hour: its place, the energy of its board, its health", []string{"node", "uuid"},
	func(h *Hour) []fold.GPU { return h.GPUs },
	text("node", "node", func(g *fold.GPU) string { return g.Node }),
	text("uuid", "UUID of the GPU", func(g *fold.GPU) string { return g.UUID }),
	text("serial", "serial number of the board, empty if unknown", func(g *fold.GPU) string { return g.Serial }),
	text("chassis_serial", "serial number of the chassis", func(g *fold.GPU) string { return g.ChassisSerial }),
	text("chassis_slot", "slot in the chassis", func(g *fold.GPU) string { return g.ChassisSlot }),
	text("tray_index", "tray in the chassis", func(g *fold.GPU) string { return g.TrayIndex }),
	text("pci_bus_id", "PCI address", func(g *fold.GPU) string { return g.PCIBusID }),
	text("model", "model of the GPU", func(g *fold.GPU) string { return g.Model }),
	text("system_uuid", "system UUID of the machine", func(g *fold.GPU) string { return g.SystemUUID }),
	text("machine", "name of the machine at its provider", func(g *fold.GPU) string { return g.Machine }),
	moment("first_seen", "first scrape in the hour with the GPU present", func(g *fold.GPU) time.Time { return g.First }),
	moment("last_seen", "last scrape in the hour with the GPU present", func(g *fold.GPU) time.Time { return g.Last }),
	integer("scrapes", "scrapes in the hour with the GPU present", func(g *fold.GPU) int64 { return int64(g.Scrapes) }),
	integer("energy_mj", "energy of the board in millijoules", func(g *fold.GPU) int64 { return g.Energy }),
	text("energy_source", "source of the energy counter", func(g *fold.GPU) string { return g.EnergySource }),
	text("energy_scope", "scope of the energy counter", func(g *fold.GPU) string { return g.EnergyScope }),
	long("xids", "XID errors as code=count, separated by spaces", func(g *fold.GPU) string { return counts(g.XIDs) }),
	integer("losses", "times that the driver lost the GPU", func(g *fold.GPU) int64 { return g.Losses }),
	integer("energy_resets", "resets of the energy counter", func(g *fold.GPU) int64 { return g.EnergyResets }),
	integer("remapped_correctable", "memory rows remapped for correctable errors", func(g *fold.GPU) int64 { return g.RemappedCorrectable }),
	integer("remapped_uncorrectable", "memory rows remapped for uncorrectable errors", func(g *fold.GPU) int64 { return g.RemappedUncorrectable }),
	integer("uncounted_mj", "upper bound of the energy that resets, rejected readings and gaps dropped", func(g *fold.GPU) int64 { return g.Uncounted }),
	integer("estimated_mj", "part of the energy that was divided over several owners with an estimated idle power", func(g *fold.GPU) int64 { return g.Estimated }),
)

// charge are the columns of charges and corrections.
var charge = []column[fold.Charge]{
	text("node", "node", func(c *fold.Charge) string { return c.Node }),
	text("uuid", "UUID of the GPU", func(c *fold.Charge) string { return c.UUID }),
	text("serial", "serial number of the board, empty if unknown", func(c *fold.Charge) string { return c.Serial }),
	text("namespace", "namespace of the pod, empty for a unit or a reason", func(c *fold.Charge) string { return c.Namespace }),
	text("pod", "name of the pod", func(c *fold.Charge) string { return c.Pod }),
	text("pod_uid", "UID of the pod", func(c *fold.Charge) string { return c.PodUID }),
	text("workload_kind", "kind of the workload at the root of the pod's owner chain", func(c *fold.Charge) string { return c.WorkloadKind }),
	text("workload_name", "name of that workload", func(c *fold.Charge) string { return c.WorkloadName }),
	text("workload_uid", "UID of that workload", func(c *fold.Charge) string { return c.WorkloadUID }),
	text("team", "team, by a label of the pod or its namespace, or the account of a unit", func(c *fold.Charge) string { return c.Team }),
	text("reason", "reason of unattributed energy, empty for a pod or a unit", func(c *fold.Charge) string { return c.Reason }),
	integer("energy_mj", "energy in millijoules", func(c *fold.Charge) int64 { return c.Energy }),
	integer("exclusive_mj", "measured part of the energy", func(c *fold.Charge) int64 { return c.Exclusive }),
	integer("idle_mj", "idle part of the energy", func(c *fold.Charge) int64 { return c.Idle }),
	integer("held_ms", "time that the pod or unit held the GPU, in milliseconds, summed over its containers and instances", func(c *fold.Charge) int64 { return c.Held }),
	integer("gpu_ms", "the same weighted by the share of the GPU", func(c *fold.Charge) int64 { return c.GPUTime }),
	integer("active_ms", "time that the pod or unit worked on the GPU", func(c *fold.Charge) int64 { return c.Active }),
	text("manager", "manager of the unit outside pods, such as slurm, empty for a pod or a reason", func(c *fold.Charge) string { return c.Manager }),
	text("unit", "name of the unit, such as a job id", func(c *fold.Charge) string { return c.Unit }),
	text("username", "user of the unit, or the user id", func(c *fold.Charge) string { return c.Username }),
	integer("estimated_mj", "part of the energy that was divided with an estimated idle power", func(c *fold.Charge) int64 { return c.Estimated }),
	integer("busy_ms", "sampled busy time of the pod or unit on the GPU", func(c *fold.Charge) int64 { return c.Busy }),
	moment("began", "start of the use: the creation of new counters, which may be before the hour, else the scrape before their first increase or the start of the hour; empty for a reason, and in rows of earlier versions", func(c *fold.Charge) time.Time { return c.Began }),
	moment("ended", "end of the use: the last scrape in the hour at which a counter had increased; empty as began", func(c *fold.Charge) time.Time { return c.Ended }),
}

var chargeKey = []string{"node", "uuid", "namespace", "pod", "pod_uid", "manager", "unit", "reason"}

// added are the columns of a table that earlier versions did not have.
var added = map[string][]string{
	"charges":     {"manager", "unit", "username", "estimated_mj", "busy_ms", "began", "ended"},
	"corrections": {"manager", "unit", "username", "estimated_mj", "busy_ms", "began", "ended"},
	"events":      {"filed_by"},
	"gpu_hours":   {"uncounted_mj", "estimated_mj"},
	"hours":       {"explained_nodes", "reason", "unknown_pods"},
	"snapshots":   {"filed_by"},
}

// Added reports whether earlier versions did not have a column. In their rows it is empty or 0.
func (c Column) Added() bool { return c.added }

// Zero returns the value of an added column in a row of an earlier version.
func (c Column) Zero() any {
	switch c.Type {
	case Int:
		return int64(0)
	case Time:
		return time.Time{}
	}
	return ""
}

// Charges has a row for each pod, unit or reason, GPU and hour. Rows of a GPU and hour add up to its
// energy.
var Charges = build("charges", "the energy of a GPU in an hour by pod, by unit outside pods, or by the reason for which neither is charged", chargeKey,
	func(h *Hour) []fold.Charge { return h.Charges }, charge...)

// Corrections has the differences that were found after a month was closed.
var Corrections = build("corrections", "a difference from charges that was found after the month was closed; add them to the charges", append([]string{"revision"}, chargeKey...),
	func(h *Hour) []fold.Charge { return h.Corrections },
	append([]column[fold.Charge]{{Column{Name: "revision", Type: Int, Help: "revision of the hour with this correction"}, func(h *Hour, _ *fold.Charge) any { return h.Revision }}}, charge...)...)

// Pods has a row for each pod that requested GPUs in an hour.
var Pods = build("pods", "a pod that requested GPUs in an hour, with its owners", []string{"pod_uid"},
	func(h *Hour) []fold.Pod { return h.Pods },
	text("namespace", "namespace", func(p *fold.Pod) string { return p.Namespace }),
	text("pod", "name of the pod", func(p *fold.Pod) string { return p.Pod }),
	text("pod_uid", "UID of the pod", func(p *fold.Pod) string { return p.PodUID }),
	text("node", "node, empty while the pod is pending", func(p *fold.Pod) string { return p.Node }),
	text("owner_kind", "kind of the pod's controller", func(p *fold.Pod) string { return p.OwnerKind }),
	text("owner_name", "name of the controller", func(p *fold.Pod) string { return p.OwnerName }),
	text("workload_kind", "kind of the workload at the root of the owner chain", func(p *fold.Pod) string { return p.WorkloadKind }),
	text("workload_name", "name of that workload", func(p *fold.Pod) string { return p.WorkloadName }),
	text("workload_uid", "UID of that workload", func(p *fold.Pod) string { return p.WorkloadUID }),
	text("team", "team, by a label of the pod or its namespace", func(p *fold.Pod) string { return p.Team }),
	long("requests", "requested GPUs as resource=count, separated by spaces", func(p *fold.Pod) string { return counts(p.Requests) }),
)

// Workloads has a row for each owner of GPU pods in an hour.
var Workloads = build("workloads", "an owner of GPU pods in an hour, at any level", []string{"uid"},
	func(h *Hour) []fold.Workload { return h.Workloads },
	text("kind", "kind", func(w *fold.Workload) string { return w.Kind }),
	text("namespace", "namespace, empty for a workload without one", func(w *fold.Workload) string { return w.Namespace }),
	text("name", "name", func(w *fold.Workload) string { return w.Name }),
	text("uid", "UID", func(w *fold.Workload) string { return w.UID }),
	text("parent_uid", "UID of its controller, empty if there is none or it is unknown", func(w *fold.Workload) string { return w.ParentUID }),
)

// Data are the tables with the data of an hour.
var Data = []Table{GPUHours, Charges, Pods, Workloads}

// Hours is the manifest: a row for each hour whose data is filed completely.
var Hours = build("hours", "an hour of a cluster whose rows are filed completely", nil,
	func(h *Hour) []*Hour { return []*Hour{h} },
	text("state", "complete; gaps: an operator accepted missing samples; corrected: corrections were added; pruned: its rows are deleted, see monthly_charges", func(h **Hour) string { return string((*h).State) }),
	integer("revision", "1, increased by each change", func(h **Hour) int64 { return (*h).Revision }),
	integer("gpus", "rows in gpu_hours", func(h **Hour) int64 { return int64(len((*h).GPUs)) }),
	integer("charges", "rows in charges", func(h **Hour) int64 { return int64(len((*h).Charges)) }),
	integer("energy_mj", "energy of all boards in millijoules", func(h **Hour) int64 { return (*h).energy() }),
	integer("scrapes", "scrapes of all GPUs", func(h **Hour) int64 { return (*h).scrapes() }),
	integer("silent_nodes", "nodes without samples and without failed scrapes", func(h **Hour) int64 { return int64((*h).SilentNodes) }),
	text("digest", "SHA-256 of the rows of gpu_hours, charges, pods and workloads", func(h **Hour) string { return (*h).Digest }),
	integer("explained_nodes", "silent nodes that were removed, drained or renamed", func(h **Hour) int64 { return int64((*h).ExplainedNodes) }),
	text("reason", "reason of the operator who accepted missing samples, empty if the hour has none", func(h **Hour) string { return (*h).Reason }),
	integer("unknown_pods", "charged pods that no series of the reconciler or of kube-state-metrics names; 0 without these series", func(h **Hour) int64 { return int64(len((*h).UnknownPods)) }),
)

// All are the tables of the archive.
var All = append(slices.Concat(Data, Appended), Corrections, Hours, MonthlyCharges)

func (h *Hour) energy() (sum int64) {
	for i := range h.GPUs {
		sum += h.GPUs[i].Energy
	}
	return sum
}

func (h *Hour) scrapes() (sum int64) {
	for i := range h.GPUs {
		sum += int64(h.GPUs[i].Scrapes)
	}
	return sum
}

// Names returns the names of the columns.
func (t Table) Names() []string {
	names := make([]string, len(t.Columns))
	for i, c := range t.Columns {
		names[i] = c.Name
	}
	return names
}

// Only returns the table with some of its columns.
func (t Table) Only(names []string) Table {
	t.Columns = slices.DeleteFunc(slices.Clone(t.Columns), func(c Column) bool { return !slices.Contains(names, c.Name) })
	return t
}

// value returns the value of a column in a row.
func (t Table) value(row []any, column string) any { return row[t.index(column)] }

// index returns the index of a column, -1 if the table does not have it.
func (t Table) index(column string) int {
	return slices.IndexFunc(t.Columns, func(c Column) bool { return c.Name == column })
}

// EarlierReason is the reason of gaps that earlier versions filed.
const EarlierReason = "filed by an earlier version"

// FiledIn returns what a row of the manifest identifies.
func FiledIn(row []any) Filed {
	f := Filed{
		Revision: Hours.value(row, "revision").(int64), Digest: Hours.value(row, "digest").(string), Reason: Hours.value(row, "reason").(string), Pruned: StateIn(row) == Pruned,
	}
	if f.Reason == "" && StateIn(row) == Gaps {
		f.Reason = EarlierReason
	}
	return f
}

// StateIn returns the state in a row of the manifest.
func StateIn(row []any) State { return State(Hours.value(row, "state").(string)) }

// NodesIn returns the nodes in rows of gpu_hours, sorted.
func NodesIn(rows [][]any) (nodes []string) {
	for _, row := range rows {
		nodes = append(nodes, GPUHours.value(row, "node").(string))
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// ChargeIn returns the account, the amounts and the interval of a row of charges or corrections.
func ChargeIn(t Table, row []any) fold.Charge {
	text := func(column string) string { return t.value(row, column).(string) }
	integer := func(column string) int64 { return t.value(row, column).(int64) }
	moment := func(column string) time.Time {
		at, _ := t.value(row, column).(time.Time) // null in a database if it is unknown
		return at.UTC()
	}
	return fold.Charge{
		Node: text("node"), UUID: text("uuid"), Namespace: text("namespace"), Pod: text("pod"), PodUID: text("pod_uid"),
		Manager: text("manager"), Unit: text("unit"), Reason: text("reason"),
		Energy: integer("energy_mj"), Exclusive: integer("exclusive_mj"), Idle: integer("idle_mj"), Estimated: integer("estimated_mj"),
		Held: integer("held_ms"), GPUTime: integer("gpu_ms"), Active: integer("active_ms"), Busy: integer("busy_ms"),
		Began: moment("began"), Ended: moment("ended"),
	}
}

// Digest returns the SHA-256 of the rows of an hour. It depends on the data only, not on a sink.
func Digest(h *fold.Hour) string {
	return DigestRows(func(t Table) [][]any { return t.Rows(&Hour{Hour: h}) })
}

// DigestRows returns the digest of the rows of each of the tables [Data]. Rows without values of added
// columns have the digest of earlier versions, so that their hours are not filed again.
func DigestRows(rows func(t Table) [][]any) string {
	sum := sha256.New()
	for _, t := range Data {
		for _, row := range rows(t) {
			for i, value := range row {
				if t.Columns[i].Added() && value == t.Columns[i].Zero() {
					continue
				}
				_, _ = io.WriteString(sum, strconv.Quote(Format(value)))
			}
			_, _ = sum.Write([]byte{'\n'})
		}
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Format returns a value as text: times in RFC 3339 with milliseconds, unknown ones empty.
func Format(value any) string {
	if at, ok := value.(time.Time); ok {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	return fmt.Sprint(value)
}

func counts(by map[string]int64) string {
	var all []string
	for _, key := range slices.Sorted(maps.Keys(by)) {
		all = append(all, key+"="+strconv.FormatInt(by[key], 10))
	}
	return strings.Join(all, " ")
}
