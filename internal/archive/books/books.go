// Package books reads the books of GPU fleets from the places where they are: the files or a database
// of the archive, or the samples in a Prometheus-compatible store. All return the same rows.
package books

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Source is a place with books. Rows are passed to each in the order of their hours.
type Source interface {
	// Hours calls each for every filed hour, until it returns false.
	Hours(ctx context.Context, of Selection, each func(Hour) bool) error
	// GPUs calls each for the GPUs of every filed hour. A GPU in two places has two rows.
	GPUs(ctx context.Context, of Selection, each func(table.GPU)) error
	// Charges returns sums of charges with their corrections. Charges with equal columns are added up;
	// the other columns of a sum are empty.
	Charges(ctx context.Context, of Selection, by ...string) ([]table.Charge, error)
	// Boards returns the boards of filed hours in each of their places, in any order. Some may be of up to
	// two hours before, unless their hours are counted.
	Boards(ctx context.Context, of Selection) ([]Board, error)
	// UnknownPods returns the charged pods that neither the reconciler nor kube-state-metrics names, by cluster,
	// namespace and name.
	UnknownPods(ctx context.Context, of Selection) ([]UnknownPod, error)
	// Uncounted returns the boards with uncounted energy, those with the most first. It returns false if the
	// source does not have such amounts.
	Uncounted(ctx context.Context, of Selection) (boards []Uncounted, known bool, err error)
	// Refused returns the boards with impossible records in the hours that were read, by cluster, hour and
	// board. These hours have no amounts. An archive has none.
	Refused() []Refusal
	// Name describes the place in errors and notices.
	Name() string
	Close() error
}

// Selection selects rows.
type Selection struct {
	// From is the first hour and Until the end of the last one.
	From, Until time.Time
	// Where has the allowed values of some columns. Values of different columns must all match.
	Where map[string][]string
	// Named, if it is set, is a serial number, a UUID, a node or a chassis. It is for [Source.Boards].
	Named string
	// Energy also reads the energy of the boards in [Source.Hours].
	Energy bool
	// Sums also reads the sums of the pruned hours of whole months in [Source.Charges]. They have no node, GPU
	// and pod, and the hour of a sum is the start of its month.
	Sums bool
	// Parts are the starts of parts of the time in their order, the first one is From. If they are set, the column hour of a
	// charge is the start of its part.
	Parts []time.Time
	// By are the columns of [Source.Charges] with the same selection. A store reads hours and unknown pods from where it reads these
	// charges: from samples or from rules.
	By []string
	// Counted also counts the hours of each board in [Source.Boards]; some of a store may be left out. The same selection
	// then returns their hours in [Source.Hours].
	Counted bool
	// Places reads only the places of GPUs, without their energy and health, which is faster.
	Places bool
}

// key identifies the samples of a selection.
func (s Selection) key() string { return fmt.Sprint(s.From, s.Until, s.Where) }

// Board is a GPU of a board in a place.
type Board struct {
	Cluster, Node, UUID, Serial, ChassisSerial, ChassisSlot, PCIBusID string
	// Hours is the number of hours in which it was scraped there, if they are counted.
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
func (s Selection) gpuFields() []table.Field[table.GPU] {
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
