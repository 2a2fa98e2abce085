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
	// Refused is set by [Hour.Refuse].
	Refused bool
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
	// Uncounted is an upper bound of the energy that Energy omits, Estimated the part of Energy that was
	// divided with an estimated idle power, in mJ.
	Uncounted, Estimated int64
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
	// Energy is in mJ. Exclusive is its measured part, Idle its idle part, and Estimated the part that was
	// divided with an estimated idle power.
	Energy, Exclusive, Idle, Estimated int64
	// Held, GPUTime, Active and Busy are in ms. GPUTime is Held weighted by the share of the GPU, Busy the
	// sampled busy time.
	Held, GPUTime, Active, Busy int64
	// Began and Ended are the times between which the counters of a pod or unit grew, to the scrape. Began may be before
	// the hour if new counters have their first sample in it. They are zero for unattributed energy, and do not
	// identify the charge.
	Began, Ended time.Time
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
	// ErrImplausible means that a board has impossible values other than single ones, which are dropped.
	ErrImplausible = errors.New("the record is implausible: delete these samples in the store, or set --gpu.max-power if the board can draw more")
)

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
			r.extend(t)
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
	h.Refused = true
	for i := range h.GPUs {
		g := &h.GPUs[i]
		g.Energy, g.Uncounted, g.Estimated = 0, 0, 0
	}
	for i := range h.Charges {
		c := &h.Charges[i]
		c.clear()
		c.Began, c.Ended = time.Time{}, time.Time{}
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
	c.Estimated += sign * d.Estimated
	c.Held += sign * d.Held
	c.GPUTime += sign * d.GPUTime
	c.Active += sign * d.Active
	c.Busy += sign * d.Busy
}

func (c *Charge) clear() { c.add(*c, -1) }

func (c *Charge) isZero() bool {
	return c.Energy == 0 && c.Exclusive == 0 && c.Idle == 0 && c.Estimated == 0 && c.Held == 0 && c.GPUTime == 0 && c.Active == 0 && c.Busy == 0
}
