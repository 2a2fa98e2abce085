package validator

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// State is the state of a Node's inventory.
type State string

// These are the states. Contradiction and the states after it mean that the inventory is rejected and no labels are
// written to the Node.
const (
	Settled         State = "settled"
	Unconfirmed     State = "unconfirmed" // the first reading waits for an equal second reading
	DriverDown      State = "driver_down" // the exporter reports that its driver is down
	Contradiction   State = "contradiction"
	OtherNode       State = "other_node"   // the page contains the name of another node
	Disagreement    State = "disagreement" // two exporters on the Node report different GPUs
	DuplicateUUID   State = "duplicate_uuid"
	DuplicateSerial State = "duplicate_serial"
	NoGPU           State = "no_gpu" // only the exporter shows that the Node has a GPU
)

// States lists all states.
var States = []State{Settled, Unconfirmed, DriverDown, Contradiction, OtherNode, Disagreement, DuplicateUUID, DuplicateSerial, NoGPU}

// Refused reports whether the inventory is rejected.
func (s State) Refused() bool {
	return slices.Contains([]State{Contradiction, OtherNode, Disagreement, DuplicateUUID, DuplicateSerial, NoGPU}, s)
}

// Finding is the state of a Node's inventory, and the reason for this state.
type Finding struct {
	State  State
	Detail string
	// Other is another Node that reports the same GPU.
	Other string
}

// Validator holds the latest reports of the exporters. It is safe for concurrent use.
type Validator struct {
	rules nodelabel.Rules
	// lapse is the age at which the last report of an exporter no longer conflicts with reports about other Nodes.
	lapse time.Duration

	mu      sync.Mutex
	nodes   map[string]*node
	holders holders
}

type node struct {
	state   State // never DuplicateUUID or DuplicateSerial, which depend on other Nodes
	detail  string
	first   reading // first reading of labels, which an equal second reading must confirm
	settled *nodelabel.Desired
	boards  []identity
	// reported is the time of the last report. identified is the time of the last report that contained identities of
	// GPUs.
	reported, identified time.Time
	// observations contains the latest report of each exporter on the Node. Nearly all Nodes have only one exporter.
	observations map[string]observation
}

// observation is the latest page of one exporter, converted to labels.
type observation struct {
	at      time.Time
	desired nodelabel.Desired
}

type reading struct {
	at      time.Time // time of the reading on the exporter's clock
	desired nodelabel.Desired
}

// New returns a validator without reports.
func New(rules nodelabel.Rules, lapse time.Duration) *Validator {
	return &Validator{rules: rules, lapse: lapse, nodes: make(map[string]*node), holders: newHolders()}
}

// Read processes a page from an exporter on a Node.
func (j *Validator) Read(name, exporter string, page inventory.Page, now time.Time) Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.node(name)
	contradiction := page.Contradiction()
	n.reported = now
	delete(n.observations, exporter)
	switch {
	case !page.DriverUp:
		n.state, n.detail, n.first = DriverDown, "", reading{}
	case page.Node.Name != "" && page.Node.Name != name:
		n.state, n.detail, n.first = OtherNode, "its exporter reports another node's name", reading{}
	case contradiction != nil:
		n.state, n.detail, n.first = Contradiction, contradiction.Error(), reading{}
	default:
		j.accept(name, n, exporter, page, now)
	}
	return j.finding(name, n, now)
}

// Reject records that a Node's inventory is rejected for a reason that is not on the exporter's page. After that, the
// GPUs of this Node no longer conflict with GPUs of other Nodes.
func (j *Validator) Reject(name string, why State, detail string, now time.Time) Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.node(name)
	j.holders.drop(name, n.boards)
	n.boards, n.reported = nil, now
	n.state, n.detail, n.first = why, detail, reading{}
	return j.finding(name, n, now)
}

func (j *Validator) node(name string) *node {
	n := j.nodes[name]
	if n == nil {
		n = &node{observations: make(map[string]observation)}
		j.nodes[name] = n
	}
	return n
}

// accept derives the Node's labels from a page without contradictions. It rejects the page if another exporter on the
// Node reports different GPUs, because otherwise the labels would alternate between the two reports.
func (j *Validator) accept(name string, n *node, exporter string, page inventory.Page, now time.Time) {
	desired := j.rules.Desired(name, page)
	if n.settled != nil && n.settled.Equal(desired) {
		desired = *n.settled // so that only one copy is in memory
	}
	n.observations[exporter] = observation{at: now, desired: desired}
	maps.DeleteFunc(n.observations, func(_ string, w observation) bool { return now.Sub(w.at) > j.lapse })
	for _, w := range n.observations {
		if !w.desired.Equal(desired) {
			n.state, n.detail, n.first = Disagreement, "two exporters on the node report different GPUs", reading{}
			return
		}
	}
	j.holders.drop(name, n.boards)
	n.boards, n.identified = identitiesOf(page), now
	j.holders.add(name, n.boards)
	n.observe(reading{at: page.Time, desired: desired})
}

// ForgetExporter removes the report from a deleted exporter.
func (j *Validator) ForgetExporter(name, exporter string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.nodes[name]; n != nil {
		delete(n.observations, exporter)
	}
}

// observe accepts labels after two equal readings. The second reading must be newer, because a hanging exporter repeats
// its last reading.
func (n *node) observe(r reading) {
	n.detail = ""
	switch {
	case n.settled != nil && n.settled.Equal(r.desired):
		n.state, n.first = Settled, reading{}
	case n.state == Unconfirmed && n.first.desired.Equal(r.desired):
		if !n.first.at.Equal(r.at) {
			n.state, n.settled, n.first = Settled, &r.desired, reading{}
		}
	default:
		n.state, n.first = Unconfirmed, r
	}
}

// Want returns the desired state of a Node, which is the last state that two equal readings confirmed. It returns false
// if there is no such state, or if the inventory is rejected.
func (j *Validator) Want(name string, now time.Time) (nodelabel.Desired, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.nodes[name]
	if n == nil || n.settled == nil || j.finding(name, n, now).State.Refused() {
		return nodelabel.Desired{}, false
	}
	return j.withoutMoved(name, *n.settled, now), true
}

// withoutMoved omits the labels of lost GPUs that another Node reports. The annotation still lists these GPUs as lost.
func (j *Validator) withoutMoved(name string, d nodelabel.Desired, now time.Time) nodelabel.Desired {
	moved := slices.DeleteFunc(slices.Clone(d.Lost), func(key string) bool {
		return j.conflict(name, serialIdentity(d.Labels[key]), now) == ""
	})
	if len(moved) > 0 {
		d.Labels = maps.Clone(d.Labels)
		maps.DeleteFunc(d.Labels, func(key, _ string) bool { return slices.Contains(moved, key) })
	}
	return d
}

// conflict returns another Node that currently reports the identity, or an empty name.
func (j *Validator) conflict(name string, c identity, now time.Time) string {
	for _, other := range j.holders.nodesOf(c) {
		if other != name && now.Sub(j.nodes[other].identified) <= j.lapse {
			return other
		}
	}
	return ""
}

// Forget removes a Node that was deleted or has no exporter.
func (j *Validator) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.nodes[name]; n != nil {
		j.holders.drop(name, n.boards)
		delete(j.nodes, name)
	}
}

// Findings returns the findings by Node. It omits Nodes whose exporter has not responded for the time lapse, because
// the boards of such Nodes may have been moved.
func (j *Validator) Findings(now time.Time) map[string]Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string]Finding, len(j.nodes))
	for name, n := range j.nodes {
		if now.Sub(n.reported) <= j.lapse {
			all[name] = j.finding(name, n, now)
		}
	}
	return all
}

func (j *Validator) finding(name string, n *node, now time.Time) Finding {
	if len(j.holders.others) > 0 && (n.state == Settled || n.state == Unconfirmed || n.state == DriverDown) {
		for _, c := range n.boards {
			if other := j.conflict(name, c, now); other != "" {
				return Finding{State: c.duplicate(), Detail: c.String() + " is on two nodes", Other: other}
			}
		}
	}
	return Finding{State: n.state, Detail: n.detail}
}
