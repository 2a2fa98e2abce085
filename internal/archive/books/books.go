// Package books reads the hourly records of GPU use. The source is an archive in files or in a database, or the samples
// in a Prometheus-compatible store. All sources return the same rows.
package books

import (
	"maps"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Query selects rows and the form of the result.
type Query struct {
	// From is the start of the first hour. Until is the end of the last hour.
	From, Until time.Time
	// Where contains the allowed values by column. A row is selected if its value is allowed in each of these columns.
	Where map[string][]string
	// Named is a serial number, a UUID, a node or a chassis, or empty. Only [Source.Boards] uses it.
	Named string
	// If Places is set, rows contain the node, the chassis and the slot of each GPU, but no energy and no health. The
	// query then reads less data.
	Places bool

	// Only [Source.Statement] uses By and the fields below it. It adds up charges that have the same values in the
	// columns By.
	By []string
	// Parts contains the start of each part of the period in ascending order. The first start is From. If Parts is set,
	// the hour of a charge is the start of the part that contains the charge.
	Parts []time.Time
	// If Sums is set, the statement also contains monthly sums for pruned hours, whose own rows are removed. It
	// contains the sums of a month only if the query includes the whole month. A monthly sum has no node, GPU or pod.
	// Its hour is the start of the month.
	Sums bool
	// Limit is the maximum number of sums in a statement from an archive. If a statement has more sums, it fails with
	// [ErrTooMany] before it takes too much memory. 0 means no limit.
	Limit int
	// If Checks is set, the statement contains unknown pods and uncounted energy. If Rows is set, the statement
	// contains the GPUs.
	Checks, Rows bool
}

// Board identifies a GPU in a place: a cluster, a node, a chassis slot and a PCI address.
type Board struct {
	Cluster, Node, UUID, Serial, ChassisSerial, ChassisSlot, PCIBusID string
	// Hours is the number of hours in which the GPU was scraped in this place; see [Source.Counted].
	Hours int
}

// Is compares name with the fields of the board. It returns the names of the equal fields: serial, uuid, node or
// chassis.
func (b Board) Is(name string) (kinds []string) {
	for _, kind := range []struct{ name, value string }{{"serial", b.Serial}, {"uuid", b.UUID}, {"node", b.Node}, {"chassis", b.ChassisSerial}} {
		if kind.value == name {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// Hour describes an hour of a cluster that the source contains.
type Hour struct {
	Cluster string
	Hour    time.Time
	State   table.State
	Energy  int64 // energy of all boards in mJ
	// Reason is the reason that an operator gave for accepting missing samples.
	Reason string
	GPUs   int64 // number of rows in gpu_hours; 0 if unknown
	// Lost is set if the rows of a pruned hour were removed by hand. No monthly sum includes this hour.
	Lost bool
}

// Refused is the state of an hour with impossible samples. Its energy and times are unknown.
const Refused table.State = "refused"

// Refusal explains why the samples of an hour were refused.
type Refusal struct {
	Cluster string
	Hour    time.Time
	Board   *fold.BoardError
}

// UnknownPod is a charged pod without a series from the reconciler or kube-state-metrics.
type UnknownPod struct {
	Cluster string
	table.PodID
	Hours, Energy int64 // mJ
}

// unknownPods adds up the charges by pod. In a key, Hours and Energy are 0.
type unknownPods map[UnknownPod]UnknownPod

// add adds the energy that a pod used in one hour.
func (u unknownPods) add(cluster string, pod table.PodID, energy int64) {
	key := UnknownPod{Cluster: cluster, PodID: pod}
	u[key] = UnknownPod{cluster, pod, u[key].Hours + 1, u[key].Energy + energy}
}

func (u unknownPods) sorted() []UnknownPod {
	return slices.SortedFunc(maps.Values(u), func(a, b UnknownPod) int {
		return slices.Compare([]string{a.Cluster, a.Namespace, a.Pod, a.UID}, []string{b.Cluster, b.Namespace, b.Pod, b.UID})
	})
}

const (
	hourColumn  = "hour"
	modelColumn = "model"
)

func (s Query) gpuFields() []table.Field[table.GPU] {
	if s.Places {
		return table.PlaceFields
	}
	return table.GPUFields
}

func namesOf[T any](fields []table.Field[T]) (names []string) {
	for _, f := range fields {
		names = append(names, f.Name)
	}
	return names
}

func fieldsOf[T any](field func(name string) (table.Field[T], bool), names []string) (all []table.Field[T]) {
	for _, name := range names {
		if f, ok := field(name); ok {
			all = append(all, f)
		}
	}
	return all
}
