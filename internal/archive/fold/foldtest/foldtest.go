// Package foldtest simulates fleets and the samples of their exporters. It also computes the energy and times that an
// archive must contain.
package foldtest

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/archive/fold"
)

// Store contains series in memory. Their samples are sorted by time.
type Store struct {
	all   map[string]*fold.Series
	mu    sync.Mutex
	index map[string][]*fold.Series // sorted series by metric; the key "" contains all series
}

// NewStore returns an empty store.
func NewStore() *Store { return &Store{all: make(map[string]*fold.Series)} }

func (s *Store) series(metric string) []*fold.Series {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.index[""]) != len(s.all) {
		s.index = make(map[string][]*fold.Series)
		for _, key := range slices.Sorted(maps.Keys(s.all)) {
			one := s.all[key]
			s.index[""], s.index[one.Labels.Metric()] = append(s.index[""], one), append(s.index[one.Labels.Metric()], one)
		}
	}
	return s.index[metric]
}

// Labels converts pairs of names and values to labels, sorted by name.
func Labels(metric string, pairs ...string) fold.Labels {
	labels := append(make(fold.Labels, 0, 1+len(pairs)/2), fold.Label{Name: "__name__", Value: metric})
	for i := 0; i < len(pairs); i += 2 {
		labels = append(labels, fold.Label{Name: pairs[i], Value: pairs[i+1]})
	}
	slices.SortFunc(labels, func(a, b fold.Label) int { return strings.Compare(a.Name, b.Name) })
	return labels
}

func keyOf(labels fold.Labels) string {
	var text strings.Builder
	text.Grow(32 * len(labels))
	for _, l := range labels {
		for _, part := range []string{l.Name, " ", l.Value, "} {"} {
			text.WriteString(part)
		}
	}
	return text.String()
}

// Add stores a sample. The labels are pairs of names and values.
func (s *Store) Add(at time.Time, value float64, metric string, pairs ...string) {
	s.add(Labels(metric, pairs...), fold.Sample{Time: at.UnixMilli(), Value: value})
}

func (s *Store) add(labels fold.Labels, samples ...fold.Sample) {
	key := keyOf(labels)
	if s.all[key] == nil {
		s.all[key] = &fold.Series{Labels: labels}
	}
	s.all[key].Samples = append(s.all[key].Samples, samples...)
}

// each implements [record].
func (s *Store) each(q *query, after, until time.Time, f func(fold.Labels, []fold.Sample)) {
	for _, one := range s.series(q.metric) {
		if q.selects(one.Labels) {
			if found := between(one.Samples, after, until); len(found) > 0 {
				f(one.Labels, found)
			}
		}
	}
}

// between returns a copy of the samples in (after, until].
func between(samples []fold.Sample, after, until time.Time) []fold.Sample {
	index := func(at time.Time) int {
		i, _ := slices.BinarySearchFunc(samples, at.UnixMilli()+1, func(x fold.Sample, ms int64) int { return cmp.Compare(x.Time, ms) })
		return i
	}
	return slices.Clone(samples[index(after):index(until)])
}

// Input returns the samples of an hour with their opening values.
func (s *Store) Input(start time.Time) fold.Input {
	in := fold.Input{Start: start, Openings: make(fold.Openings)}
	s.each(&query{}, start.Add(-fold.Lookback), start, func(l fold.Labels, samples []fold.Sample) {
		in.Openings.Add(fold.Series{Labels: l, Samples: samples})
	})
	s.each(&query{}, start, start.Add(time.Hour), func(l fold.Labels, samples []fold.Sample) {
		in.Series = append(in.Series, fold.Series{Labels: l, Samples: samples})
	})
	for _, b := range in.Doubtful() {
		var before []fold.Series
		s.each(&query{}, start.Add(-fold.Lookback), start, func(l fold.Labels, samples []fold.Sample) {
			if l.Get("node") == b.Node && l.Get("UUID") == b.UUID {
				before = append(before, fold.Series{Labels: l, Samples: samples})
			}
		})
		in.Reopen(before)
	}
	return in
}

// OpenMetrics returns the samples as text for promtool, without staleness markers.
func (s *Store) OpenMetrics() []byte {
	return s.text(time.Time{}, time.Unix(1<<40, 0), func(x fold.Sample) string { return fmt.Sprintf("%.3f", float64(x.Time)/1000) }, "# EOF\n")
}

// Exposition returns the samples in (after, until], in Prometheus's text format.
func (s *Store) Exposition(after, until time.Time) string {
	return string(s.text(after, until, func(x fold.Sample) string { return strconv.FormatInt(x.Time, 10) }, ""))
}

// text writes a line for each sample. stamp formats the time of a sample.
func (s *Store) text(after, until time.Time, stamp func(fold.Sample) string, end string) []byte {
	var text bytes.Buffer
	s.each(&query{}, after, until, func(l fold.Labels, samples []fold.Sample) {
		name := series(l)
		for _, x := range samples {
			fmt.Fprintf(&text, "%s %v %s\n", name, x.Value, stamp(x))
		}
	})
	text.WriteString(end)
	return text.Bytes()
}

// Only returns a store with the series for which the function "of" returns true.
func (s *Store) Only(of func(fold.Labels) bool) *Store {
	some := NewStore()
	for key, one := range s.all {
		if of(one.Labels) {
			some.all[key] = one
		}
	}
	return some
}

// Samples returns the number of samples in (after, until].
func (s *Store) Samples(after, until time.Time) (n int) {
	s.each(&query{}, after, until, func(_ fold.Labels, samples []fold.Sample) { n += len(samples) })
	return n
}

func series(of fold.Labels) string {
	var labels []string
	for _, l := range of {
		if l.Name != "__name__" {
			labels = append(labels, l.Name+"="+strconv.Quote(l.Value))
		}
	}
	return of.Metric() + "{" + strings.Join(labels, ",") + "}"
}

// Fleet is a simulated cluster. Each node has one GPU, and runs pods and units, often only for minutes. Sometimes a
// node reboots, or is not scraped for a while. Its serial number becomes known late.
type Fleet struct {
	Nodes []*Node
	// If Wrong is n, about one scrape in n has a wrong value. If Wrong is 0, all values are right. Wrong values do not
	// change Board and Pods in [Node].
	Wrong int
	start time.Time
	store *Store
	rand  *rand.Rand
	other *rand.Rand // random numbers for values other than energy
	more  []string   // labels of all series
}

// Node is a simulated node with its exporter, a GPU, and pods and units. Its counters are in millijoules.
type Node struct {
	Name, UUID string
	// Board contains the sums of the increases of the board's counters between scrapes. Pods contains these sums for
	// pods and units, and the times of their first and last use. Its keys are the UIDs of pods and the names of units.
	// The last use ends at a scrape.
	Board Amounts
	Pods  map[string]Use

	counters
	began  time.Time
	serial string
	idle   int64
	pods   map[string]*pod
	born   int  // number of pods so far
	wrong  bool // whether the last scrape had a wrong value
	down   int  // minutes until the node is up
	unseen int  // number of scrapes that will fail
}

type pod struct {
	counters
	began time.Time
	ended int // minutes since the pod ended; 0 while the pod runs
}

// retention is the number of minutes for which the exporter keeps the counters of an ended pod.
const retention = 5

// NewFleet returns a fleet that begins at start. The labels are added to all its series in the store. Fleets with
// different seeds have different GPUs.
func NewFleet(store *Store, start time.Time, seed uint64, nodes int, labels ...string) *Fleet {
	f := &Fleet{start: start, store: store, rand: rand.New(rand.NewPCG(seed, 1)), other: rand.New(rand.NewPCG(seed, 2)), more: labels}
	for i := range nodes {
		f.Nodes = append(f.Nodes, &Node{
			Name: "n" + strconv.Itoa(i), UUID: fmt.Sprintf("GPU-%08x-4c1f-11ef-9d0a-%012x", uint32(i+1)*2654435761, seed<<16|uint64(i)), began: start.Add(time.Second), down: min(i, 2) * f.rand.IntN(100),
			pods: make(map[string]*pod), Pods: make(map[string]Use),
		})
	}
	return f
}

// Run advances the fleet by minutes. Each node is scraped at its own second of the minute.
func (f *Fleet) Run(minutes int) {
	for minute := range minutes {
		for i, n := range f.Nodes {
			at := f.start.Add(time.Duration(minute)*time.Minute + time.Duration(i%50+1)*time.Second)
			up := 0.0
			if f.advance(n, at) && f.scrape(n, at) {
				up = 1
			}
			f.store.Add(at, up, "up", slices.Concat(f.more, []string{"job", "gpuledger-record", "node", n.Name})...)
		}
	}
	f.start = f.start.Add(time.Duration(minutes) * time.Minute)
}

// advance advances a node by a minute. It returns false if the node is down.
func (f *Fleet) advance(n *Node, at time.Time) bool {
	switch {
	case n.down > 0:
		if n.down--; n.down == 0 {
			n.began, n.idle, n.pods, n.counters = at.Add(-20*time.Second), 0, make(map[string]*pod), counters{}
		}
		return false
	case f.rand.IntN(700) == 0:
		n.down = 1 + f.rand.IntN(90)
		return false
	}
	if f.rand.IntN(10) == 0 && len(n.pods) < 4 {
		n.born++
		n.pods[n.Name+"-"+strconv.Itoa(n.born)] = &pod{began: at.Add(-time.Duration(f.rand.IntN(50)) * time.Second)}
	}
	rest := 60 * (100_000 + f.rand.Int64N(400_000))
	n.now.Energy += rest
	gained := make(map[string]int64)
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		p := n.pods[uid]
		if p.ended > 0 {
			if p.ended++; p.ended > retention+1 {
				delete(n.pods, uid)
			}
			continue
		}
		part := f.rand.Int64N(rest + 1)
		p.now.Energy, rest = p.now.Energy+part, rest-part
		gained[uid] = part
		if f.rand.IntN(30) == 0 {
			p.ended = 1
		}
	}
	n.idle += rest
	n.estimate(f.other, gained)
	return true
}

// scrape adds the samples of a node to the store. It returns false if the scrape fails.
func (f *Fleet) scrape(n *Node, at time.Time) bool {
	switch {
	case n.unseen > 0:
		n.unseen--
		return false
	case f.rand.IntN(50) == 0:
		return false
	case f.rand.IntN(400) == 0:
		n.unseen = f.rand.IntN(100)
		return false
	case n.serial == "" && f.rand.IntN(100) == 0:
		n.serial = "S-" + n.Name
	}
	values := 0
	if f.Wrong > 0 && n.last.Energy > 0 && !n.wrong && f.rand.IntN(f.Wrong) == 0 {
		values = 1 + f.rand.IntN(1+len(n.pods))
	}
	n.wrong = values > 0
	add := func(metric string, value float64, labels ...string) {
		if strings.HasSuffix(metric, "energy_joules_total") {
			if values--; values == 0 {
				value = f.wrong(value)
			}
		}
		f.store.Add(at, value, metric, slices.Concat(f.more, []string{"node", n.Name, "UUID", n.UUID, "serial", n.serial}, labels)...)
	}
	add("gpuledger_placement_info", 1, "chassis_serial", "C-"+n.Name, "model", "NVIDIA H100 80GB HBM3", "pci_bus_id", "00000000:1B:00.0")
	add("gpuledger_board_energy_joules_total", joules(n.now.Energy))
	add("gpuledger_board_created_timestamp_seconds", float64(n.began.UnixMilli())/1000)
	add("gpuledger_board_unattributed_energy_joules_total", joules(n.idle), "reason", "idle")
	add("gpuledger_board_uncounted_energy_bound_joules_total", joules(n.now.Uncounted))
	add("gpuledger_board_estimated_energy_joules_total", joules(n.now.Estimated))
	if !n.wrong {
		n.scraped(at)
	}
	for _, uid := range slices.Sorted(maps.Keys(n.pods)) {
		p := n.pods[uid]
		family, labels := "gpuledger_allocation_", []string{"namespace", "ml", "pod", uid, "pod_uid", uid}
		if isUnit(uid) {
			family, labels = "gpuledger_unit_allocation_", []string{"manager", "slurm", "unit", uid}
		}
		add(family+"energy_joules_total", joules(p.now.Energy), labels...)
		add(family+"estimated_energy_joules_total", joules(p.now.Estimated), labels...)
		add(family+"busy_seconds_total", joules(p.now.Busy), labels...)
		add(family+"created_timestamp_seconds", float64(p.began.UnixMilli())/1000, labels...)
	}
	return true
}

// wrong returns a value that the counter cannot have. For a small value, it does not return a smaller value, because
// the smaller value could be the start of a new counter.
func (f *Fleet) wrong(value float64) float64 {
	const small = 1e6
	all := []float64{math.Inf(1), math.Inf(-1), -1, 1e308, 9.3e18, value + 1e9, 1000*value + 1e9, 0, value / 2}
	if value < small {
		all = all[:len(all)-2]
	}
	return all[f.rand.IntN(len(all))]
}

// Every third name is the name of a Slurm job.
func isUnit(name string) bool {
	_, number, _ := strings.Cut(name, "-")
	n, _ := strconv.Atoi(number)
	return n%3 == 0
}

func joules(millijoules int64) float64 { return float64(millijoules) / 1000 }
