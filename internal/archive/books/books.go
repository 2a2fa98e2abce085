// Package books reads the books of GPU fleets: from files of the archive, from a database of the archive, or from the
// samples in a Prometheus-compatible store. All of these sources return the same rows.
package books

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Query selects rows and the form of the result.
type Query struct {
	// From is the start of the first hour. Until is the end of the last hour.
	From, Until time.Time
	// Where contains the allowed values of some columns. A row is selected if each of these columns
	// has one of its allowed values.
	Where map[string][]string
	// Named is a serial number, a UUID, a node or a chassis, or empty. Only [Source.Boards] uses it.
	Named string
	// If Places is set, the places of GPUs are read without their energy and health. Such a query is
	// faster.
	Places bool

	// Only [Source.Statement] uses By and the fields below. By contains the columns by which charges are grouped.
	By []string
	// Parts contains the start of each part of the period in ascending order, beginning with From. If Parts is set, the
	// hour of a charge is the start of its part.
	Parts []time.Time
	// If Sums is set, the statement includes the sums of pruned hours in whole months. These sums have no node, no GPU and
	// no pod, and their hour is the start of the month.
	Sums bool
	// Limit is the maximum number of sums that a statement from an archive may have, or 0 if there is no limit. A
	// statement with more sums fails with [ErrTooMany] before all of them are in memory.
	Limit int
	// If Checks is set, the statement contains unknown pods and uncounted energy. If Rows is set, the statement contains
	// the GPUs.
	Checks, Rows bool
}

// Board identifies one GPU of a board in one place.
type Board struct {
	Cluster, Node, UUID, Serial, ChassisSerial, ChassisSlot, PCIBusID string
	// Hours is the number of hours in which the board was scraped in this place; see [Source.Counted].
	Hours int
}

// Is returns which of the board's names equal name: serial, uuid, node or chassis.
func (b Board) Is(name string) (kinds []string) {
	for _, kind := range []struct{ name, value string }{{"serial", b.Serial}, {"uuid", b.UUID}, {"node", b.Node}, {"chassis", b.ChassisSerial}} {
		if kind.value == name {
			kinds = append(kinds, kind.name)
		}
	}
	return kinds
}

// Hour is a filed hour of a cluster.
type Hour struct {
	Cluster string
	Hour    time.Time
	State   table.State
	Energy  int64 // energy of all boards in mJ
	// Reason is the reason that an operator gave for accepting missing samples. It is empty if no reason was given.
	Reason string
	GPUs   int64 // number of rows of GPUs; 0 if unknown
	// Lost is set for a pruned hour if no sum contains its charges, because its rows were removed by hand.
	Lost bool
}

// Refused is the state of an hour for which the store contains an impossible record. Such an hour
// has no amounts.
const Refused table.State = "refused"

// Refusal explains why an hour has no amounts.
type Refusal struct {
	Cluster string
	Hour    time.Time
	Board   *fold.BoardError
}

// UnknownPod is a pod that is named by no series of its cluster.
type UnknownPod struct {
	Cluster string
	table.PodID
	Hours, Energy int64 // mJ
}

// unknownPods adds up the charges to unknown pods.
type unknownPods map[UnknownPod]*UnknownPod

// add adds the energy that a pod used in an hour.
func (u unknownPods) add(cluster string, pod table.PodID, energy int64) {
	key := UnknownPod{Cluster: cluster, PodID: pod}
	if u[key] == nil {
		first := key
		u[key] = &first
	}
	u[key].Hours++
	u[key].Energy += energy
}

func (u unknownPods) sorted() (all []UnknownPod) {
	for _, p := range u {
		all = append(all, *p)
	}
	slices.SortFunc(all, func(a, b UnknownPod) int {
		return slices.Compare([]string{a.Cluster, a.Namespace, a.Pod, a.UID}, []string{b.Cluster, b.Namespace, b.Pod, b.UID})
	})
	return all
}

const (
	hourColumn  = "hour"
	modelColumn = "model"
)

// gpuFields returns the columns of gpu_hours that a query needs.
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

// chargeFields returns the columns of charges that have the given names.
func chargeFields(names []string) (all []table.Field[table.Charge]) {
	for _, name := range names {
		if f, ok := table.ChargeField(name); ok {
			all = append(all, f)
		}
	}
	return all
}

// Text returns the value of a charge in a text column.
func Text(c *table.Charge, column string) string {
	f, _ := table.ChargeField(column)
	return *f.Text(c)
}

// SetText sets the value of a charge in a text column.
func SetText(c *table.Charge, column, text string) {
	f, _ := table.ChargeField(column)
	*f.Text(c) = text
}
