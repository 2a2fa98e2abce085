// Package fold computes what one cluster used in one hour from the raw samples of the record
// (docs/history.md). It is pure: standard library only, and no clock.
//
// Amounts are differences of counters, in integers: millijoules and milliseconds. The last value
// of an hour is the opening value of the next one, so hours add up to days exactly. The charges of
// a GPU add up to the energy of its board exactly.
package fold

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Lookback is the maximum age of an opening value.
const Lookback = 24 * time.Hour

// Sample is a raw sample of a series. Time is in milliseconds since the Unix epoch.
type Sample struct {
	Time  int64
	Value float64
}

// Series is a series of the record with its samples in the order of time.
type Series struct {
	Labels  Labels
	Samples []Sample
}

// Input is the record of a cluster in an hour, or of some of its GPUs.
type Input struct {
	Cluster string
	Start   time.Time // full hour
	// MaxPower is the highest power of a GPU in watts; 0 is [DefaultMaxPower].
	MaxPower int64
	// Openings are the last samples at or before the start, none older than Lookback.
	Openings Openings
	// Series have the samples after the start, until the end of the hour at the latest.
	Series []Series
}

// Hour has the use of a cluster in an hour.
type Hour struct {
	Cluster   string
	Start     time.Time
	GPUs      []GPU      // sorted by node and UUID
	Charges   []Charge   // sorted by node, UUID, reason, pod and unit
	Pods      []Pod      // sorted by namespace, name and UID
	Workloads []Workload // sorted by UID
	// UnknownPods are the charged pods that no series of their cluster names, sorted. There are none if the
	// cluster has no such series at all.
	UnknownPods []PodID
	// Dropped is the number of scrapes of GPUs that were left out because of an implausible value.
	Dropped int
}

// GPU is a GPU in an hour: its place, the energy of its board and its health. Unknown texts are
// empty.
type GPU struct {
	Node, UUID, Serial, ChassisSerial, ChassisSlot, TrayIndex, PCIBusID, Model, SystemUUID string
	Machine                                                                                string // its name at the provider
	// First and Last are the first and last scrape of the placement, zero without one. Scrapes
	// counts them.
	First, Last time.Time
	Scrapes     int
	Energy      int64 // mJ
	// EnergySource and EnergyScope describe the energy counter.
	EnergySource, EnergyScope string
	XIDs                      map[string]int64 // by code
	Losses, EnergyResets      int64
	// RemappedCorrectable and RemappedUncorrectable are memory rows by the kind of the error.
	RemappedCorrectable, RemappedUncorrectable int64
}

// Charge is a part of the energy of a board: the part of a pod, of a unit outside pods such as a
// Slurm job, or unattributed energy with its reason.
type Charge struct {
	Node, UUID, Serial     string
	Namespace, Pod, PodUID string // empty for units and unattributed energy
	Manager, Unit          string // empty for pods and unattributed energy
	Reason                 string // empty for pods and units
	// The workload is the root of the pod's owner chain. It, the team and the user of a unit are
	// attributes: they do not identify the charge.
	WorkloadKind, WorkloadName, WorkloadUID, Team, Username string
	// Energy is in mJ. Exclusive is its measured part, Idle its idle part.
	Energy, Exclusive, Idle int64
	// Held, GPUTime and Active are in ms. GPUTime is Held weighted by the share of the GPU.
	Held, GPUTime, Active int64
}

// Unrecorded is the reason of energy that no series of the record has: a pod or unit began and was
// retired while the exporter was not scraped.
const Unrecorded = "unrecorded"

// The errors of records that cannot be folded.
var (
	// ErrReplicas means that two series of one account have samples at the same time: two replicas
	// of a Prometheus without deduplication.
	ErrReplicas = errors.New("two series of the same account overlap: deduplicate the replicas of Prometheus in the store")
	// ErrOvercharged means that charges exceed the energy of a board.
	ErrOvercharged = errors.New("the charges exceed the energy of the board")
	// ErrImplausible means that values of a board are impossible, and that they are not single ones, which
	// are dropped.
	ErrImplausible = errors.New("the record is implausible: delete these samples in the store, or set --gpu.max-power if the board can draw more")
)

// The metrics of the record that are not counters, and the counter of the board.
const (
	placement    = "gpuledger_placement_info"
	source       = "gpuledger_board_energy_source_info"
	boardCreated = "gpuledger_board_created_timestamp_seconds"
	podCreated   = "gpuledger_allocation_created_timestamp_seconds"
	unitCreated  = "gpuledger_unit_allocation_created_timestamp_seconds"
	boardEnergy  = "gpuledger_board_energy_joules_total"
)

// counter describes a counter of the record: the labels that identify a series of a GPU, and where
// its increase belongs.
type counter struct {
	name string
	by   []string
	unit float64 // 1000 for millijoules and milliseconds
	kind kind
	add  func(r *rows, a Account, increase int64)
}

var (
	podLabels  = []string{"namespace", "pod", "pod_uid"}
	unitLabels = []string{"manager", "unit"}
)

var counters = slices.Concat(boards, owned("gpuledger_allocation_", podLabels, (*rows).pod), owned("gpuledger_unit_allocation_", unitLabels, (*rows).unit))

var boards = []counter{
	{boardEnergy, nil, 1000, energy, func(r *rows, a Account, n int64) { r.gpu(a).Energy += n }},
	{"gpuledger_board_unattributed_energy_joules_total", []string{"reason"}, 1000, energy, func(r *rows, a Account, n int64) { r.reason(a, a.labels[0]).Energy += n }},
	{"gpuledger_board_xid_errors_total", []string{"xid"}, 1, health, func(r *rows, a Account, n int64) { r.gpu(a).addXID(a.labels[0], n) }},
	{"gpuledger_board_losses_total", nil, 1, health, func(r *rows, a Account, n int64) { r.gpu(a).Losses += n }},
	{"gpuledger_board_energy_resets_total", nil, 1, health, func(r *rows, a Account, n int64) { r.gpu(a).EnergyResets += n }},
	{"gpuledger_board_remapped_rows_total", []string{"error"}, 1, health, func(r *rows, a Account, n int64) { r.gpu(a).addRemapped(a.labels[0], n) }},
}

// owned returns the counters of the owner that some labels name.
func owned(prefix string, by []string, charge func(*rows, Account) *Charge) []counter {
	return []counter{
		{prefix + "energy_joules_total", by, 1000, energy, func(r *rows, a Account, n int64) { charge(r, a).Energy += n }},
		{prefix + "exclusive_energy_joules_total", by, 1000, energy, func(r *rows, a Account, n int64) { charge(r, a).Exclusive += n }},
		{prefix + "idle_energy_joules_total", by, 1000, energy, func(r *rows, a Account, n int64) { charge(r, a).Idle += n }},
		{prefix + "seconds_total", by, 1000, held, func(r *rows, a Account, n int64) { charge(r, a).Held += n }},
		{prefix + "gpu_seconds_total", by, 1000, gpuTime, func(r *rows, a Account, n int64) { charge(r, a).GPUTime += n }},
		{prefix + "active_seconds_total", by, 1000, held, func(r *rows, a Account, n int64) { charge(r, a).Active += n }},
	}
}

// Metrics are the metrics that Fold reads in an hour.
func Metrics() []string { return append([]string{placement, source}, Opened()...) }

// Opened are the metrics of which Fold needs opening values.
func Opened() []string {
	var names []string
	for _, c := range slices.Concat(created, counters) {
		names = append(names, c.name)
	}
	return names
}

// opened are the counters and created timestamps by metric.
var opened = func() map[string]*counter {
	all := make(map[string]*counter)
	for _, group := range [][]counter{counters, created} {
		for i := range group {
			all[group[i].name] = &group[i]
		}
	}
	return all
}()

// Fold computes the rows of an hour, without owners. The error is of type [BoardErrors]. The hour then
// has places, health and owners, but no amounts.
func Fold(in Input) (*Hour, error) {
	hour := &Hour{Cluster: in.Cluster, Start: in.Start.UTC()}
	r := rows{gpus: make(map[gpuKey]*GPU), charges: make(map[chargeKey]*Charge), refused: make(map[gpuKey]*BoardError)}
	for _, b := range boardsOf(&in) {
		r.place(b.series)
		err := b.settle()
		if err == nil {
			err = b.sum()
		}
		if err != nil {
			r.refused[b.gpuKey] = b.fail(err)
			b.healthOnly()
		}
		hour.Dropped += len(b.dropped)
		for _, t := range b.tracks {
			t.add(&r, t.account, t.sum)
		}
	}
	return hour, r.close(hour)
}

// Join adds the rows of other GPUs of the same hour.
func (h *Hour) Join(parts ...*Hour) {
	for _, part := range parts {
		h.GPUs = append(h.GPUs, part.GPUs...)
		h.Charges = append(h.Charges, part.Charges...)
		h.Dropped += part.Dropped
	}
	h.sort()
}

// Refuse removes the amounts. Places, health and owners do not depend on them.
func (h *Hour) Refuse() {
	for i := range h.GPUs {
		h.GPUs[i].Energy = 0
	}
	for i := range h.Charges {
		h.Charges[i].clear()
	}
}

func (h *Hour) sort() {
	slices.SortFunc(h.GPUs, func(a, b GPU) int { return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.UUID, b.UUID)) })
	slices.SortFunc(h.Charges, Charge.compare)
}

// merge joins the series of each account, which follow each other in time.
func (c *counter) merge(series []Series) (map[Account][]Sample, error) {
	slices.SortFunc(series, func(a, b Series) int { return cmp.Compare(a.Samples[0].Time, b.Samples[0].Time) })
	accounts := make(map[Account][]Sample, len(series))
	for _, s := range series {
		a := c.account(s.Labels)
		known := accounts[a]
		switch {
		case known == nil:
			accounts[a] = s.Samples
		case known[len(known)-1].Time >= s.Samples[0].Time:
			return nil, fmt.Errorf("%s: %w", c.name, ErrReplicas)
		default:
			accounts[a] = slices.Concat(known, s.Samples)
		}
	}
	return accounts, nil
}

// created are the metrics with the created timestamps of the counters of a board, a pod and a unit.
var created = []counter{{name: boardCreated}, {name: podCreated, by: podLabels}, {name: unitCreated, by: unitLabels}}

// chargeKey identifies a charge.
type chargeKey struct {
	gpuKey
	pod    [3]string
	unit   [2]string
	reason string
}

// key returns the key of a charge.
func (c *Charge) key() chargeKey {
	return chargeKey{gpuKey{c.Node, c.UUID}, [3]string{c.Namespace, c.Pod, c.PodUID}, [2]string{c.Manager, c.Unit}, c.Reason}
}

// rows collects the rows of an hour.
type rows struct {
	gpus    map[gpuKey]*GPU
	charges map[chargeKey]*Charge
	refused map[gpuKey]*BoardError
}

func (r *rows) gpu(a Account) *GPU { return r.at(a.gpuKey) }

func (r *rows) at(k gpuKey) *GPU {
	if r.gpus[k] == nil {
		r.gpus[k] = &GPU{Node: k.node, UUID: k.uuid}
	}
	return r.gpus[k]
}

func (r *rows) charge(k chargeKey) *Charge {
	if r.charges[k] == nil {
		r.charges[k] = &Charge{
			Node: k.node, UUID: k.uuid, Namespace: k.pod[0], Pod: k.pod[1], PodUID: k.pod[2], Manager: k.unit[0], Unit: k.unit[1], Reason: k.reason,
		}
	}
	return r.charges[k]
}

func (r *rows) pod(a Account) *Charge { return r.charge(chargeKey{gpuKey: a.gpuKey, pod: a.labels}) }

func (r *rows) unit(a Account) *Charge {
	return r.charge(chargeKey{gpuKey: a.gpuKey, unit: [2]string{a.labels[0], a.labels[1]}})
}

func (r *rows) reason(a Account, reason string) *Charge {
	return r.charge(chargeKey{gpuKey: a.gpuKey, reason: reason})
}

func (g *GPU) addXID(code string, n int64) {
	if n == 0 {
		return
	}
	if g.XIDs == nil {
		g.XIDs = make(map[string]int64)
	}
	g.XIDs[code] += n
}

func (g *GPU) addRemapped(kind string, n int64) {
	if kind == "correctable" {
		g.RemappedCorrectable += n
	} else {
		g.RemappedUncorrectable += n
	}
}

// place adds the attributes of each GPU, by its last scrape.
func (r *rows) place(series map[string][]Series) {
	latest := func(series []Series) []Series {
		return slices.SortedFunc(slices.Values(series), func(a, b Series) int {
			return cmp.Compare(a.Samples[len(a.Samples)-1].Time, b.Samples[len(b.Samples)-1].Time)
		})
	}
	for _, s := range latest(series[boardEnergy]) {
		r.at(gpuOf(s.Labels)).Serial = s.Labels.Get("serial")
	}
	for _, s := range latest(series[source]) {
		g := r.at(gpuOf(s.Labels))
		g.EnergySource, g.EnergyScope = s.Labels.Get("source"), s.Labels.Get("scope")
	}
	for _, s := range latest(series[placement]) {
		l, g := s.Labels, r.at(gpuOf(s.Labels))
		g.Serial, g.ChassisSerial, g.ChassisSlot, g.TrayIndex = l.Get("serial"), l.Get("chassis_serial"), l.Get("chassis_slot"), l.Get("tray_index")
		g.PCIBusID, g.Model, g.SystemUUID = l.Get("pci_bus_id"), l.Get("model"), l.Get("system_uuid")
		first, last := time.UnixMilli(s.Samples[0].Time).UTC(), time.UnixMilli(s.Samples[len(s.Samples)-1].Time).UTC()
		if g.Scrapes == 0 || first.Before(g.First) {
			g.First = first
		}
		g.Last = last
		g.Scrapes += len(s.Samples)
	}
}

// close adds the remainders and sorts the rows. If boards are refused, no row has an amount.
func (r *rows) close(h *Hour) error {
	charged := make(map[gpuKey]int64)
	for k, c := range r.charges {
		charged[k.gpuKey] += c.Energy
	}
	for k, g := range r.gpus {
		rest := g.Energy - charged[k]
		switch {
		case r.refused[k] != nil:
		case rest < 0:
			r.refused[k] = &BoardError{k.node, k.uuid, g.Serial, fmt.Errorf("%d mJ are charged, the board used %d mJ: %w", charged[k], g.Energy, ErrOvercharged)}
		case rest > 0:
			r.charge(chargeKey{gpuKey: k, reason: Unrecorded}).Energy += rest
		}
	}
	for _, g := range r.gpus {
		h.GPUs = append(h.GPUs, *g)
	}
	for k, c := range r.charges {
		if c.isZero() && (r.refused[k.gpuKey] == nil || k.reason != "") {
			continue
		}
		c.Serial = r.at(gpuKey{c.Node, c.UUID}).Serial
		h.Charges = append(h.Charges, *c)
	}
	h.sort()
	if len(r.refused) > 0 {
		h.Refuse()
		return newBoardErrors(maps.Values(r.refused))
	}
	return nil
}

func (c Charge) compare(d Charge) int {
	return cmp.Or(
		cmp.Compare(c.Node, d.Node), cmp.Compare(c.UUID, d.UUID), cmp.Compare(c.Reason, d.Reason),
		cmp.Compare(c.Namespace, d.Namespace), cmp.Compare(c.Pod, d.Pod), cmp.Compare(c.PodUID, d.PodUID),
		cmp.Compare(c.Manager, d.Manager), cmp.Compare(c.Unit, d.Unit),
	)
}

// Difference returns the amounts by which charges differ from those before, sorted. Together with
// those before they add up to the charges.
func Difference(before, now []Charge) []Charge {
	all := make(map[chargeKey]*Charge)
	add := func(charges []Charge, sign int64) {
		for _, c := range charges {
			k := c.key()
			if all[k] == nil {
				first := c
				first.clear()
				all[k] = &first
			}
			all[k].add(c, sign)
		}
	}
	add(now, 1)
	add(before, -1)
	var changed []Charge
	for _, c := range all {
		if !c.isZero() {
			changed = append(changed, *c)
		}
	}
	slices.SortFunc(changed, Charge.compare)
	return changed
}

// add adds the amounts of another charge, with a sign.
func (c *Charge) add(d Charge, sign int64) {
	c.Energy += sign * d.Energy
	c.Exclusive += sign * d.Exclusive
	c.Idle += sign * d.Idle
	c.Held += sign * d.Held
	c.GPUTime += sign * d.GPUTime
	c.Active += sign * d.Active
}

func (c *Charge) clear() { c.add(*c, -1) }

func (c *Charge) isZero() bool {
	return c.Energy == 0 && c.Exclusive == 0 && c.Idle == 0 && c.Held == 0 && c.GPUTime == 0 && c.Active == 0
}
