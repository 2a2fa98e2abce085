// Package books reads the books of GPU fleets from the places where they are: the files or a database
// of the archive, or the samples in a Prometheus-compatible store. All return the same rows.
package books

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Query selects rows.
type Query struct {
	// From is the first hour and Until the end of the last one.
	From, Until time.Time
	// Where contains the allowed values of some columns. Values of different columns must all match.
	Where map[string][]string
	// Named, if it is set, is a serial number, a UUID, a node or a chassis. It is for [Source.Boards].
	Named string
	// Places reads only the places of GPUs, without their energy and health, which is faster.
	Places bool

	// The rest is for [Source.Statement]. By are the columns by which charges are added up.
	By []string
	// Parts are the starts of parts of the time in their order, the first one is From. If they are set, the column hour of a
	// charge is the start of its part.
	Parts []time.Time
	// Sums includes the sums of the pruned hours of whole months. They have no node, GPU and pod, and the hour of a sum is
	// the start of its month.
	Sums bool
	// Checks includes unknown pods and uncounted energy, Rows the GPUs.
	Checks, Rows bool
}

// Board is a GPU of a board in a place.
type Board struct {
	Cluster, Node, UUID, Serial, ChassisSerial, ChassisSlot, PCIBusID string
	// Hours is the number of hours in which it was scraped there, see [Source.Counted].
	Hours int
}

// Is reports by which kinds of names a board is found: serial, uuid, node or chassis.
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
	Energy  int64 // of all boards, in mJ
	// Reason is the reason of an operator who accepted missing samples, empty for none.
	Reason string
	GPUs   int64 // number of rows of GPUs, 0 if it is unknown
	// Lost is set for a pruned hour whose charges are in no sum: its rows were removed by hand.
	Lost bool
}

// Refused is the state of an hour of a store whose record is impossible. It has no amounts.
const Refused table.State = "refused"

// Refusal is the reason for which an hour has no amounts.
type Refusal struct {
	Cluster string
	Hour    time.Time
	Board   *fold.BoardError
}

// UnknownPod is a pod that no series of its cluster names.
type UnknownPod struct {
	Cluster string
	table.PodID
	Hours, Energy int64 // mJ
}

// unknownPods adds up the charges of unknown pods.
type unknownPods map[UnknownPod]*UnknownPod

// add adds the energy of a pod in an hour.
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

// gpuFields are the columns of gpu_hours that a selection needs.
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

// chargeFields returns columns of charges by their names.
func chargeFields(names []string) (all []table.Field[table.Charge]) {
	for _, name := range names {
		if f, ok := table.ChargeField(name); ok {
			all = append(all, f)
		}
	}
	return all
}

// Text returns the value of a column of texts.
func Text(c *table.Charge, column string) string {
	f, _ := table.ChargeField(column)
	return *f.Text(c)
}

// SetText sets the value of a column of texts.
func SetText(c *table.Charge, column, text string) {
	f, _ := table.ChargeField(column)
	*f.Text(c) = text
}
