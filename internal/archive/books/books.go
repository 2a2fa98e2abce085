// Package books reads the hourly records of GPU use: from files or a database of the archive, or from samples in a
// Prometheus-compatible store. All sources return the same rows.
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
	// Where contains allowed values by column. A row is selected if each of these columns has an allowed value.
	Where map[string][]string
	// Named is a serial number, a UUID, a node or a chassis, or empty. Only [Source.Boards] uses it.
	Named string
	// If Places is set, rows contain the node, the chassis and the slot of each GPU, but not its energy and health.
	// Such a query reads less data than a query without Places.
	Places bool

	// Only [Source.Statement] uses By and the fields below it. Charges with the same values in the columns By are added
	// up.
	By []string
	// Parts contains the start of each part of the period in ascending order. The first start is From. If Parts is set,
	// the hour of a charge is the start of its part.
	Parts []time.Time
	// If Sums is set, the statement also contains monthly sums in place of the removed rows of pruned hours. It
	// contains the sums of a month only if the query includes the whole month. These sums have no node, GPU or pod, and
	// their hour is the start of the month.
	Sums bool
	// Limit is the maximum number of sums in a statement from an archive; 0 means no limit. A statement with more sums
	// fails with [ErrTooMany] before all sums are in memory.
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

// Is returns the fields of the board that are equal to name: serial, uuid, node or chassis.
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
	// Lost is set if the rows of a pruned hour were removed by hand, so that no monthly sum includes the hour.
	Lost bool
}

// Refused is the state of an hour whose samples are impossible. The energy and times of such an hour are unknown.
const Refused table.State = "refused"

// Refusal explains why the samples of an hour were refused.
type Refusal struct {
	Cluster string
	Hour    time.Time
	Board   *fold.BoardError
}

// UnknownPod is a pod that was charged, but for which its cluster has no series from the reconciler or
// kube-state-metrics.
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
