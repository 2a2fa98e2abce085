package worlds

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// These counters are on the page /metrics/record.
const (
	AllocationEnergy = "gpuledger_allocation_energy_joules_total"
	AllocationAlone  = "gpuledger_allocation_exclusive_energy_joules_total"
	AllocationIdle   = "gpuledger_allocation_idle_energy_joules_total"
	AllocationGPU    = "gpuledger_allocation_gpu_seconds_total"
	AllocationActive = "gpuledger_allocation_active_seconds_total"
	UnitEnergy       = "gpuledger_unit_allocation_energy_joules_total"
	UnitAlone        = "gpuledger_unit_allocation_exclusive_energy_joules_total"
	UnitIdle         = "gpuledger_unit_allocation_idle_energy_joules_total"
	UnitGPU          = "gpuledger_unit_allocation_gpu_seconds_total"
	UnitActive       = "gpuledger_unit_allocation_active_seconds_total"
	BoardEnergy      = "gpuledger_board_energy_joules_total"
)

// A Fleet is simulated second by second. Boards draw power, pods are charged for the energy, and the counters are
// scraped. Tests compare the results of the queries with Truth.
type Fleet struct {
	*History
	cluster string // value of the label cluster, if several clusters share a store
	boards  []board
	pods    []pod
	off     map[string][]Span // times in which a node is down, so that its counters restart
	silent  map[string][]Span // times in which a node's exporter is unreachable but continues to count
	blind   []Span            // times without scrapes
	second  []Span            // times in which the second of two scrapers is used; it scrapes at a different second
	owners  map[string]string // workload or user of each known pod and unit, by UID
	// thousandths is set if counters are rounded to millijoules and milliseconds, as an exporter does.
	thousandths bool

	meters map[account]*meter
	Truth  Truth
}

// A Span excludes its end. Both times are measured from the beginning of a history.
type Span struct{ From, To time.Duration }

func within(spans []Span, at time.Duration) bool {
	for _, s := range spans {
		if s.From <= at && at < s.To {
			return true
		}
	}
	return false
}

type board struct {
	uuid, serial string
	stays        map[string]Span
	watts        int
}

// pod is a pod or, if manager is set, a unit on a board.
type pod struct {
	namespace, name, uid, board string
	Span
	share float64       // share of the board's energy
	age   time.Duration // age at the beginning of the history
	bare  bool          // set if the pod uses the GPU without an allocation

	manager string // manager of the unit; empty for a pod
}

func (p pod) metric(name string) string {
	if p.manager != "" {
		return strings.Replace(name, "_allocation_", "_unit_allocation_", 1)
	}
	return name
}

// account identifies the counters of a board in a node. If pod is set, it identifies the counters of a pod on this
// board.
type account struct{ node, board, pod string }

// meter contains the counters of a board or of a pod.
type meter struct {
	labels  map[string]string
	values  map[string]*value // counters by metric
	created string            // series of the created timestamp
	born    time.Duration
	ended   time.Duration // time at which the pod ended or the board left, or 0
	scraped bool
}

type value struct {
	series string
	amount float64
}

func (m *meter) count(metric string, amount float64) {
	if m.values[metric] == nil {
		m.values[metric] = &value{series: Series(metric, m.labels)}
	}
	m.values[metric].amount += amount
}

// An eighth of the energy is idle, a quarter is exclusive, and half of the seconds are active.
func (m *meter) charge(p pod, joules, seconds float64) {
	m.count(p.metric(AllocationEnergy), joules)
	m.count(p.metric(AllocationIdle), joules/8)
	m.count(p.metric(AllocationAlone), joules/4)
	m.count(p.metric(AllocationActive), seconds/2)
	if p.bare {
		seconds = 0
	}
	m.count(p.metric(AllocationGPU), seconds*p.share)
}

// Truth contains the true energy in joules.
type Truth struct {
	Board      float64
	Namespaces map[string]float64
}

const (
	retention = 5 * time.Minute
	scrape    = time.Minute
)

// simulate adds energy to the truth only in the span counted.
func (f *Fleet) simulate(until time.Duration, counted Span, random *rand.Rand) {
	f.meters = make(map[account]*meter)
	f.Truth.Namespaces = make(map[string]float64)
	for at := time.Duration(0); at < until; at += time.Second {
		for _, b := range f.boards {
			watts := float64(b.watts/2 + random.IntN(b.watts))
			for node, stay := range b.stays {
				if within([]Span{stay}, at) && !within(f.off[node], at) {
					f.draw(b, node, watts, at, within([]Span{counted}, at))
				}
			}
		}
		f.retire(at)
		if at%f.Interval == 0 {
			f.scrape(at)
		}
	}
}

func (f *Fleet) draw(b board, node string, joules float64, at time.Duration, counts bool) {
	f.meter(b, node, pod{}, at).count(BoardEnergy, joules)
	if counts {
		f.Truth.Board += joules
	}
	for _, p := range f.pods {
		if p.board != b.uuid || !within([]Span{p.Span}, at) {
			continue
		}
		m := f.meter(b, node, p, at)
		m.charge(p, joules*p.share, 1)
		if at+time.Second >= p.To {
			m.ended = p.To
		}
		if counts {
			f.Truth.Namespaces[p.namespace] += joules * p.share
		}
	}
}

// meter returns the meter of a pod on a board. If the pod is empty, it returns the meter of the board.
func (f *Fleet) meter(b board, node string, p pod, at time.Duration) *meter {
	a := account{node, b.uuid, p.uid}
	if f.meters[a] == nil {
		labels := map[string]string{"cluster": f.cluster, "node": node, "UUID": b.uuid, "serial": b.serial}
		m := &meter{labels: labels, created: Series(CreatedOf(BoardEnergy), labels), born: at, values: make(map[string]*value)}
		if p.uid != "" {
			m.labels = With(labels, "namespace", p.namespace, "pod", p.name, "pod_uid", p.uid)
			if p.manager != "" {
				m.labels = With(labels, "manager", p.manager, "unit", p.name)
			}
			m.created = Series(CreatedOf(p.metric(AllocationEnergy)), m.labels)
		}
		if p.uid == "" {
			m.values[Placement] = &value{Series(Placement, With(labels, "model", Model(b.uuid))), 1}
		} else if at == 0 { // a pod may be old when the history begins
			m.born = -p.age
			m.charge(p, 100*p.age.Seconds(), p.age.Seconds())
		}
		f.meters[a] = m
	}
	return f.meters[a]
}

// Model returns the model of a GPU. Two of three boards have the same model.
func Model(uuid string) string {
	if strings.HasSuffix(uuid, "1") {
		return "A100"
	}
	return "H100"
}

// CreatedOf returns the metric with the created timestamp of a counter.
func CreatedOf(metric string) string {
	kind := strings.Split(metric, "_")[1]
	if kind == "unit" {
		kind = "unit_allocation"
	}
	return "gpuledger_" + kind + "_created_timestamp_seconds"
}

// retire ends the series of pods that ended a while ago, of boards that left a while ago, and of nodes that are down.
// If scrapes work at that time, it writes staleness markers.
func (f *Fleet) retire(at time.Duration) {
	for a, m := range f.meters {
		if m.ended == 0 && !f.sits(a, at) {
			f.leave(m, at)
		}
		over := m.ended > 0 && at >= m.ended+retention
		if over || within(f.off[a.node], at) {
			if m.scraped && !within(f.blind, at) {
				f.vanish(m, at.Truncate(f.Interval)+f.Interval)
			}
			delete(f.meters, a)
		}
	}
}

func (f *Fleet) leave(m *meter, at time.Duration) {
	m.ended = at
	if place := m.values[Placement]; place != nil && m.scraped && !within(f.blind, at) {
		f.End(place.series, at.Truncate(f.Interval)+f.Interval)
	}
	delete(m.values, Placement)
}

func (f *Fleet) sits(a account, at time.Duration) bool {
	for _, b := range f.boards {
		if b.uuid == a.board {
			return within([]Span{b.stays[a.node]}, at)
		}
	}
	return false
}

// scrape writes a sample of each counter. In each minute, each of the two scrapers scrapes each node at a different
// second.
func (f *Fleet) scrape(at time.Duration) {
	if within(f.blind, at) {
		return
	}
	phase := map[string]time.Duration{"a": 15 * time.Second, "b": 30 * time.Second, "c": 0}
	for a, m := range f.meters {
		moment := phase[a.node]
		if within(f.second, at) {
			moment += 15 * time.Second
		}
		if at%scrape != moment {
			continue
		}
		if within(f.silent[a.node], at) {
			if m.scraped {
				f.vanish(m, at)
			}
			m.scraped = false
			continue
		}
		m.scraped = true
		for _, v := range m.values {
			amount := v.amount
			if f.thousandths {
				amount = math.Round(1000*amount) / 1000
			}
			f.Add(v.series, at, amount)
		}
		f.Add(m.created, at, m.born.Seconds())
	}
}

func (f *Fleet) vanish(m *meter, at time.Duration) {
	for _, v := range m.values {
		f.End(v.series, at)
	}
	f.End(m.created, at)
}

// Uncharged returns the energy of boards minus the energy of their pods and units.
func (f *Fleet) Uncharged(counted Span, key func(map[string]string) string) map[string]float64 {
	rest := f.Sum(BoardEnergy, counted, key)
	for _, metric := range []string{AllocationEnergy, UnitEnergy} {
		for of, joules := range f.Sum(metric, counted, key) {
			rest[of] -= joules
		}
	}
	return rest
}
