package nodes

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/reconciler/machine"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// counts contains the counters, which every replica exports. A series exists for each label value from the start, so
// that Prometheus does not miss the first increase.
type counts struct {
	descs                        [numMetrics]*prometheus.Desc
	reads, writes, writeFailures *prometheus.CounterVec
}

func newCounts() *counts {
	c := &counts{reads: counterOf(reads), writes: counterOf(writes), writeFailures: counterOf(writeFailures)}
	for i := range catalogue {
		c.descs[i] = catalogue[i].NewDesc()
	}
	mustShow()
	return c
}

func counterOf(m metricID) *prometheus.CounterVec {
	row := catalogue[m]
	v := prometheus.NewCounterVec(prometheus.CounterOpts{Name: row.Name, Help: row.Help}, row.Labels)
	for _, value := range valuesOf(row.Labels[0]) {
		v.WithLabelValues(value)
	}
	return v
}

// Describe implements [prometheus.Collector].
func (n *Nodes) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range n.counts.descs {
		ch <- d
	}
}

// Collect implements [prometheus.Collector].
func (n *Nodes) Collect(ch chan<- prometheus.Metric) {
	n.counts.reads.Collect(ch)
	n.counts.writes.Collect(ch)
	n.counts.writeFailures.Collect(ch)
	if t := n.term.Load(); t != nil && t.synced.Load() {
		t.collect(ch, time.Now())
	}
}

func (t *term) collect(ch chan<- prometheus.Metric, now time.Time) {
	t.clusterState(now).show(func(m metricID, value float64, labels ...string) {
		ch <- catalogue[m].Constant(t.counts.descs[m], value, labels...)
	})
}

type clusterState struct {
	expected   map[string][]string // reasons by node
	machines   []machineOfNode
	refused    map[string]validator.State // state of each refused node
	states     map[validator.State]int
	conditions map[string]int
	held       int
}

type machineOfNode struct{ node, providerID, systemUUID string }

func (t *term) clusterState(now time.Time) *clusterState {
	s := &clusterState{
		expected: make(map[string][]string), refused: make(map[string]validator.State), states: make(map[validator.State]int),
		conditions: t.fleet.census(), held: t.held.size(),
	}
	known := make(map[string]bool)
	for _, name := range t.fleet.withExporter() {
		known[name] = true
	}
	for _, obj := range t.nodes.GetStore().List() {
		n, ok := obj.(*node)
		if !ok {
			continue
		}
		reasons := t.expected(n)
		s.expected[n.Name] = reasons
		if len(reasons) > 0 || known[n.Name] {
			s.machines = append(s.machines, machineOfNode{n.Name, n.providerID, gpu.Identity(n.systemUUID)})
		}
	}
	for name, f := range t.validator.Findings(now) {
		s.states[f.State]++
		if f.State.Refused() {
			s.refused[name] = f.State
		}
	}
	return s
}

func (s *clusterState) show(send func(m metricID, value float64, labels ...string)) {
	for node, reasons := range s.expected {
		for _, reason := range reasons {
			send(nodeExpected, 1, "node", node, "reason", reason)
		}
	}
	for _, m := range s.machines {
		send(nodeMachine, 1, "node", m.node, "provider_id", m.providerID, "machine", machine.ID(m.providerID, m.systemUUID), "system_uuid", m.systemUUID)
	}
	for node, state := range s.refused {
		send(nodeRefused, 1, "node", node, "state", string(state))
	}
	for _, state := range validator.States {
		send(exporterStates, float64(s.states[state]), "state", string(state))
	}
	for condition, count := range s.conditions {
		send(exporters, float64(count), "condition", condition)
	}
	send(changesHeld, float64(s.held))
}

// mustShow panics if the method show omits a gauge of the catalogue or one of the gauge's labels.
func mustShow() {
	s := clusterState{
		expected: map[string][]string{"": {""}}, machines: make([]machineOfNode, 1),
		refused: map[string]validator.State{"": ""}, conditions: map[string]int{"": 0},
	}
	shown := make(map[metricID]bool)
	s.show(func(m metricID, _ float64, labels ...string) {
		catalogue[m].MustHave(labels...)
		shown[m] = true
	})
	for i, m := range catalogue {
		if m.Type == gauge && !shown[metricID(i)] {
			panic(m.Name + " is not shown")
		}
	}
}
