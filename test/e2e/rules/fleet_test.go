//go:build e2e

package rules_test

import (
	"math/rand/v2"
	"strings"
	"time"
)

const (
	allocationEnergy = "gpuledger_allocation_energy_joules_total"
	allocationIdle   = "gpuledger_allocation_idle_energy_joules_total"
	allocationGPU    = "gpuledger_allocation_gpu_seconds_total"
	allocationActive = "gpuledger_allocation_active_seconds_total"
	unitEnergy       = "gpuledger_unit_allocation_energy_joules_total"
	unitIdle         = "gpuledger_unit_allocation_idle_energy_joules_total"
	unitGPU          = "gpuledger_unit_allocation_gpu_seconds_total"
	unitActive       = "gpuledger_unit_allocation_active_seconds_total"
	boardEnergy      = "gpuledger_board_energy_joules_total"
)

// fleet is simulated second by second: boards draw power, pods are charged for it, and the record is scraped. The answers of
// the queries are compared with it.
type fleet struct {
	*history
	cluster string // the label of its series, if several clusters share a store
	boards  []board
	pods    []pod
	off     map[string][]span // nodes that are down: their counters restart
	silent  map[string][]span // nodes whose exporter is unreachable; it continues to count
	blind   []span            // without scrapes
	second  []span            // the second of two scrapers, which scrapes at another moment

	meters map[account]*meter
	truth  truth
}

type span struct{ from, to time.Duration }

func within(spans []span, at time.Duration) bool {
	for _, s := range spans {
		if s.from <= at && at < s.to {
			return true
		}
	}
	return false
}

// board is a board, which can move between nodes.
type board struct {
	uuid, serial string
	stays        map[string]span
	watts        int
}

// pod is a pod on a board or, with a manager, a unit of that name.
type pod struct {
	namespace, name, uid, board string
	span
	share float64       // of the board
	age   time.Duration // before the history begins
	bare  bool          // whether it uses the GPU without an allocation

	manager string // of a unit
}

// metric returns the metric of a pod or unit for that of a pod.
func (p pod) metric(name string) string {
	if p.manager != "" {
		return strings.Replace(name, "_allocation_", "_unit_allocation_", 1)
	}
	return name
}

// account identifies a counter: a board on a node, or a pod on it.
type account struct{ node, board, pod string }

// meter has the counters of a board or a pod in the record.
type meter struct {
	labels  map[string]string
	values  map[string]*value // by metric
	created string            // the series of the created timestamp
	born    time.Duration
	ended   time.Duration // when its pod ended; 0 while it lives
	scraped bool
}

// value is a counter and its series.
type value struct {
	series string
	amount float64
}

// count adds to a counter, which begins at 0.
func (m *meter) count(metric string, amount float64) {
	if m.values[metric] == nil {
		m.values[metric] = &value{series: series(metric, m.labels)}
	}
	m.values[metric].amount += amount
}

// charge adds energy, a part of it idle, and seconds, half of them active.
func (m *meter) charge(p pod, joules, seconds float64) {
	m.count(p.metric(allocationEnergy), joules)
	m.count(p.metric(allocationIdle), joules/8)
	m.count(p.metric(allocationActive), seconds/2)
	if p.bare {
		seconds = 0
	}
	m.count(p.metric(allocationGPU), seconds*p.share)
}

// truth has the drawn energy in joules.
type truth struct {
	board      float64
	namespaces map[string]float64
}

const (
	retention = 5 * time.Minute
	scrape    = time.Minute
)

// simulate runs the fleet. The truth is the energy between two moments.
func (f *fleet) simulate(until time.Duration, counted span, random *rand.Rand) {
	f.meters = make(map[account]*meter)
	f.truth.namespaces = make(map[string]float64)
	for at := time.Duration(0); at < until; at += time.Second {
		for _, b := range f.boards {
			watts := float64(b.watts/2 + random.IntN(b.watts))
			for node, stay := range b.stays {
				if within([]span{stay}, at) && !within(f.off[node], at) {
					f.draw(b, node, watts, at, within([]span{counted}, at))
				}
			}
		}
		f.retire(at)
		if at%f.interval == 0 {
			f.scrape(at)
		}
	}
}

// draw charges the energy of a second.
func (f *fleet) draw(b board, node string, joules float64, at time.Duration, counts bool) {
	f.meter(b, node, pod{}, at).count(boardEnergy, joules)
	if counts {
		f.truth.board += joules
	}
	for _, p := range f.pods {
		if p.board != b.uuid || !within([]span{p.span}, at) {
			continue
		}
		m := f.meter(b, node, p, at)
		m.charge(p, joules*p.share, 1)
		if at+time.Second >= p.to {
			m.ended = p.to
		}
		if counts {
			f.truth.namespaces[p.namespace] += joules * p.share
		}
	}
}

// meter returns the meter of a pod on a board or, without a pod, that of the board.
func (f *fleet) meter(b board, node string, p pod, at time.Duration) *meter {
	a := account{node, b.uuid, p.uid}
	if f.meters[a] == nil {
		labels := map[string]string{"cluster": f.cluster, "node": node, "UUID": b.uuid, "serial": b.serial}
		m := &meter{labels: labels, created: series(createdOf(boardEnergy), labels), born: at, values: make(map[string]*value)}
		if p.uid != "" {
			m.labels = with(labels, "namespace", p.namespace, "pod", p.name, "pod_uid", p.uid)
			if p.manager != "" {
				m.labels = with(labels, "manager", p.manager, "unit", p.name)
			}
			m.created = series(createdOf(p.metric(allocationEnergy)), m.labels)
		}
		if p.uid == "" {
			m.values[placement] = &value{series(placement, with(labels, "model", model(b.uuid))), 1}
		} else if at == 0 { // the age of an old pod
			m.born = -p.age
			m.charge(p, 100*p.age.Seconds(), p.age.Seconds())
		}
		f.meters[a] = m
	}
	return f.meters[a]
}

// model returns the model of a GPU: two boards in three have the same.
func model(uuid string) string {
	if strings.HasSuffix(uuid, "1") {
		return "A100"
	}
	return "H100"
}

// createdOf returns the metric with the created timestamp of a counter of the record.
func createdOf(metric string) string {
	kind := strings.Split(metric, "_")[1]
	if kind == "unit" {
		kind = "unit_allocation"
	}
	return "gpuledger_" + kind + "_created_timestamp_seconds"
}

// retire ends the series of pods that ended a while ago, of boards that left, and of nodes that are
// down. An active scraper writes a staleness marker.
func (f *fleet) retire(at time.Duration) {
	for a, m := range f.meters {
		over := m.ended > 0 && at >= m.ended+retention
		if over || within(f.off[a.node], at) || a.pod == "" && !f.sits(a, at) {
			if m.scraped && !within(f.blind, at) {
				f.vanish(m, at.Truncate(f.interval)+f.interval)
			}
			delete(f.meters, a)
		}
	}
}

// sits reports whether the board is in the node.
func (f *fleet) sits(a account, at time.Duration) bool {
	for _, b := range f.boards {
		if b.uuid == a.board {
			return within([]span{b.stays[a.node]}, at)
		}
	}
	return false
}

// scrape writes a sample of each counter. Each node and each of the two scrapers has its own moment
// in the minute.
func (f *fleet) scrape(at time.Duration) {
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
			f.add(v.series, at, v.amount)
		}
		f.add(m.created, at, m.born.Seconds())
	}
}

// vanish writes staleness markers to a meter's series.
func (f *fleet) vanish(m *meter, at time.Duration) {
	for _, v := range m.values {
		f.end(v.series, at)
	}
	f.end(m.created, at)
}
