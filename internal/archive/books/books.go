// Package books reads the books of GPU fleets from the places where they are: the files or a database
// of the archive, or the samples in a Prometheus-compatible store. All return the same rows.
package books

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
	"github.com/gpuledger/gpuledger/internal/archive/table"
)

// Source is a place with books. Rows are passed to each in the order of their hours.
type Source interface {
	// Hours calls each for every filed hour, until it returns false.
	Hours(ctx context.Context, of Selection, each func(Hour) bool) error
	// GPUs calls each for the GPUs of every filed hour. A GPU in two places has two rows.
	GPUs(ctx context.Context, of Selection, each func(GPU)) error
	// Charges returns sums of charges with their corrections. Charges with equal columns are added up;
	// the other columns of a sum are empty. See [ChargeColumns].
	Charges(ctx context.Context, of Selection, by ...string) ([]Charge, error)
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
	fold.PodID
	Hours, Energy int64 // mJ
}

// unknownPods adds up the charges of unknown pods.
type unknownPods map[UnknownPod]*UnknownPod

// add adds the energy of a pod in an hour.
func (u unknownPods) add(cluster string, pod fold.PodID, energy int64) {
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

// GPU is a GPU in an hour.
type GPU struct {
	Cluster string
	Hour    time.Time
	fold.GPU
}

// Charge is a sum of charges.
type Charge struct {
	Cluster string
	Hour    time.Time // zero if the hours are added up
	Model   string    // of the GPU
	// Unmeasured is set if the measured part is unknown.
	Unmeasured bool
	// Unestimated is set if the estimated part and the busy time are unknown.
	Unestimated bool
	fold.Charge
}

// Add adds the amounts of another charge.
func (c *Charge) Add(d Charge) { c.add(&d) }

func (c *Charge) add(d *Charge) {
	c.Energy += d.Energy
	c.Exclusive += d.Exclusive
	c.Idle += d.Idle
	c.Held += d.Held
	c.GPUTime += d.GPUTime
	c.Active += d.Active
	c.Estimated += d.Estimated
	c.Busy += d.Busy
}

// The columns of charges, and of GPUs.
var (
	chargeTexts = map[string]func(*Charge) *string{
		"cluster": func(c *Charge) *string { return &c.Cluster }, "node": func(c *Charge) *string { return &c.Node },
		"uuid": func(c *Charge) *string { return &c.UUID }, "serial": func(c *Charge) *string { return &c.Serial },
		"namespace": func(c *Charge) *string { return &c.Namespace }, "pod": func(c *Charge) *string { return &c.Pod },
		"pod_uid": func(c *Charge) *string { return &c.PodUID }, "workload_kind": func(c *Charge) *string { return &c.WorkloadKind },
		"workload_name": func(c *Charge) *string { return &c.WorkloadName }, "workload_uid": func(c *Charge) *string { return &c.WorkloadUID },
		"team": func(c *Charge) *string { return &c.Team }, "reason": func(c *Charge) *string { return &c.Reason },
		"manager": func(c *Charge) *string { return &c.Manager }, "unit": func(c *Charge) *string { return &c.Unit },
		"username":  func(c *Charge) *string { return &c.Username },
		modelColumn: func(c *Charge) *string { return &c.Model },
	}
	amounts = []amount{
		{"energy_mj", func(c *Charge) *int64 { return &c.Energy }},
		{"exclusive_mj", func(c *Charge) *int64 { return &c.Exclusive }},
		{"idle_mj", func(c *Charge) *int64 { return &c.Idle }},
		{"held_ms", func(c *Charge) *int64 { return &c.Held }},
		{"gpu_ms", func(c *Charge) *int64 { return &c.GPUTime }},
		{"active_ms", func(c *Charge) *int64 { return &c.Active }},
		{"estimated_mj", func(c *Charge) *int64 { return &c.Estimated }},
		{"busy_ms", func(c *Charge) *int64 { return &c.Busy }},
	}
	gpuTexts = map[string]func(*GPU) *string{
		"cluster": func(g *GPU) *string { return &g.Cluster }, "node": func(g *GPU) *string { return &g.Node },
		"uuid": func(g *GPU) *string { return &g.UUID }, "serial": func(g *GPU) *string { return &g.Serial },
		"chassis_serial": func(g *GPU) *string { return &g.ChassisSerial }, "chassis_slot": func(g *GPU) *string { return &g.ChassisSlot },
		"tray_index": func(g *GPU) *string { return &g.TrayIndex }, "pci_bus_id": func(g *GPU) *string { return &g.PCIBusID },
		"model": func(g *GPU) *string { return &g.Model }, "system_uuid": func(g *GPU) *string { return &g.SystemUUID },
		"machine": func(g *GPU) *string { return &g.Machine },
	}
	gpuOthers = map[string]func(*GPU, table.Cell){
		"hour":       func(g *GPU, c table.Cell) { g.Hour = c.Time() },
		"first_seen": func(g *GPU, c table.Cell) { g.First = c.Time() }, "last_seen": func(g *GPU, c table.Cell) { g.Last = c.Time() },
		"scrapes": func(g *GPU, c table.Cell) { g.Scrapes = int(c.Int) }, "energy_mj": func(g *GPU, c table.Cell) { g.Energy = c.Int },
		"xids": func(g *GPU, c table.Cell) { g.XIDs = counts(c.Text) }, "losses": func(g *GPU, c table.Cell) { g.Losses = c.Int },
		"energy_resets":          func(g *GPU, c table.Cell) { g.EnergyResets = c.Int },
		"remapped_correctable":   func(g *GPU, c table.Cell) { g.RemappedCorrectable = c.Int },
		"remapped_uncorrectable": func(g *GPU, c table.Cell) { g.RemappedUncorrectable = c.Int },
		"uncounted_mj":           func(g *GPU, c table.Cell) { g.Uncounted = c.Int },
		"estimated_mj":           func(g *GPU, c table.Cell) { g.Estimated = c.Int },
	}
	// healthColumns are not read for places.
	healthColumns = []string{"energy_mj", "xids", "losses", "energy_resets", "remapped_correctable", "remapped_uncorrectable", "uncounted_mj", "estimated_mj"}
	// estimates are the columns of amounts that databases of earlier versions do not have.
	estimates = []string{"uncounted_mj", "estimated_mj", "busy_ms"}
)

type amount struct {
	name string
	of   func(*Charge) *int64
}

const (
	hourColumn  = "hour"
	modelColumn = "model"
)

// ChargeColumns are the columns by which charges can be added up.
func ChargeColumns() []string {
	all := []string{hourColumn}
	for name := range chargeTexts {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// gpuColumns are the columns of gpu_hours that a selection needs.
func (s Selection) gpuColumns() (names []string) {
	for _, c := range table.GPUHours.Columns {
		if gpuTexts[c.Name] == nil && gpuOthers[c.Name] == nil || s.Places && slices.Contains(healthColumns, c.Name) {
			continue
		}
		names = append(names, c.Name)
	}
	return names
}

// scanGPU returns the GPU of a row.
func scanGPU(columns []string, row []table.Cell) (g GPU) {
	for i, name := range columns {
		if text := gpuTexts[name]; text != nil {
			*text(&g) = row[i].Text
		} else {
			gpuOthers[name](&g, row[i])
		}
	}
	return g
}

// counts is the inverse of the text of counts in a table, such as "79=1 94=2".
func counts(text string) map[string]int64 {
	if text == "" {
		return nil
	}
	all := make(map[string]int64)
	for field := range strings.FieldsSeq(text) {
		key, n, _ := strings.Cut(field, "=")
		all[key], _ = strconv.ParseInt(n, 10, 64)
	}
	return all
}

// Text returns the value of a column of texts, see [ChargeColumns].
func Text(c *Charge, column string) string { return *chargeTexts[column](c) }

// SetText sets the value of a column of texts.
func SetText(c *Charge, column, text string) { *chargeTexts[column](c) = text }
