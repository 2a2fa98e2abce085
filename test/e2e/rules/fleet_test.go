//go:build e2e

package rules_test

import (
	"math/rand/v2"
	"strings"
	"time"
)

const (
	allocationEnergy = "gpuledger_allocation_energy_joules_total"
	allocationGPU    = "gpuledger_allocation_gpu_seconds_total"
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

type pod struct {
	namespace, name, uid, board string
	span
	share float64       // of the board
	age   time.Duration // before the history begins
	bare  bool          // whether it uses the GPU without an allocation
}

// account identifies a counter: a board on a node, or a pod on it.
type account struct{ node, board, pod string }

// meter has the counters of a board or a pod in the record.
type meter struct {
	energy  string // the series of the energy
	gpu     string // the series of a pod's GPU time
	created string // the series of the created timestamp
	joules  float64
	seconds float64 // of GPU time
	born    time.Duration
	ended   time.Duration // when its pod ended; 0 while it lives
	scraped bool
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
	f.meter(b, node, pod{}, at).joules += joules
	if counts {
		f.truth.board += joules
	}
	for _, p := range f.pods {
		if p.board != b.uuid || !within([]span{p.span}, at) {
			continue
		}
		m := f.meter(b, node, p, at)
		m.joules += joules * p.share
		if !p.bare {
			m.seconds += p.share
		}
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
		m := &meter{energy: series(boardEnergy, labels), born: at}
		m.created = series(createdOf(boardEnergy), labels)
		if p.uid != "" {
			labels = with(labels, "namespace", p.namespace, "pod", p.name, "pod_uid", p.uid)
			m.energy, m.gpu = series(allocationEnergy, labels), series(allocationGPU, labels)
			m.created = series(createdOf(allocationEnergy), labels)
		}
		if at == 0 { // the age of an old pod or board
			m.born = -p.age
			m.joules, m.seconds = 100*p.age.Seconds(), p.age.Seconds()
			if p.bare {
				m.seconds = 0
			}
		}
		f.meters[a] = m
	}
	return f.meters[a]
}

// createdOf returns the metric with the created timestamp of a counter of the record.
func createdOf(metric string) string {
	return "gpuledger_" + strings.Split(metric, "_")[1] + "_created_timestamp_seconds"
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
		f.add(m.energy, at, m.joules)
		f.add(m.created, at, m.born.Seconds())
		if m.gpu != "" {
			f.add(m.gpu, at, m.seconds)
		}
	}
}

// vanish writes staleness markers to a meter's series.
func (f *fleet) vanish(m *meter, at time.Duration) {
	f.end(m.energy, at)
	f.end(m.created, at)
	if m.gpu != "" {
		f.end(m.gpu, at)
	}
}
