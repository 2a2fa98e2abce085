package verdict

import (
	"maps"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/inventory"
	"github.com/gpuledger/gpuledger/internal/nodelabel"
)

// State is what is thought of a Node's exporter.
type State string

// The states. In the last four, nothing is written to the Node.
const (
	Settled         State = "settled"
	Unconfirmed     State = "unconfirmed" // one reading waits for a second one like it
	DriverDown      State = "driver_down" // it says itself that it does not know
	Contradiction   State = "contradiction"
	OtherNode       State = "other_node" // the page is of a node of another name
	DuplicateUUID   State = "duplicate_uuid"
	DuplicateSerial State = "duplicate_serial"
)

// States lists every state.
var States = []State{Settled, Unconfirmed, DriverDown, Contradiction, OtherNode, DuplicateUUID, DuplicateSerial}

// Refused reports whether what the exporter says cannot be true.
func (s State) Refused() bool {
	return s == Contradiction || s == OtherNode || s == DuplicateUUID || s == DuplicateSerial
}

// Finding is what is thought of a Node's exporter, and why.
type Finding struct {
	State State
	// Detail says what cannot be true.
	Detail string
	// Other is the Node that claims the same GPU.
	Other string
}

// Judge remembers what the exporters said. It is safe for concurrent use.
type Judge struct {
	rules nodelabel.Rules
	// lapse is how long the word of an exporter that is silent keeps other Nodes
	// from claiming its GPUs.
	lapse time.Duration

	mu     sync.Mutex
	nodes  map[string]*node
	claims claims
}

// node is what one Node's exporter said.
type node struct {
	state   State // never a duplicate: that depends on others
	detail  string
	first   reading // waits for one like it
	settled *nodelabel.Desired
	claimed []claim
	// heard is when it last made a claim.
	heard time.Time
}

// reading is what one page amounts to.
type reading struct {
	at      time.Time // the exporter's clock
	desired nodelabel.Desired
}

// New returns a judge that has heard nothing.
func New(rules nodelabel.Rules, lapse time.Duration) *Judge {
	return &Judge{rules: rules, lapse: lapse, nodes: make(map[string]*node), claims: make(claims)}
}

// Read hears one page of the exporter on a Node.
func (j *Judge) Read(name string, page inventory.Page, now time.Time) Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.nodes[name]
	if n == nil {
		n = &node{}
		j.nodes[name] = n
	}
	contradiction := page.Contradiction()
	switch {
	case !page.DriverUp:
		n.state, n.detail, n.first = DriverDown, "", reading{}
	case page.Node.Name != "" && page.Node.Name != name:
		n.state, n.detail, n.first = OtherNode, "its exporter speaks for another node", reading{}
	case contradiction != nil:
		n.state, n.detail, n.first = Contradiction, contradiction.Error(), reading{}
	default:
		j.claims.drop(name, n.claimed)
		n.claimed, n.heard = claimsOf(page), now
		j.claims.add(name, n.claimed)
		n.hear(reading{at: page.Time, desired: j.rules.Desired(name, page)})
	}
	return j.finding(name, n, now)
}

// hear settles what was read twice. The second reading must be one: an exporter that
// hangs shows the same one for ever.
func (n *node) hear(r reading) {
	n.detail = ""
	switch {
	case n.settled != nil && same(*n.settled, r.desired):
		n.state, n.first = Settled, reading{}
	case n.state == Unconfirmed && same(n.first.desired, r.desired):
		if !n.first.at.Equal(r.at) {
			n.state, n.settled, n.first = Settled, &r.desired, reading{}
		}
	default:
		n.state, n.first = Unconfirmed, r
	}
}

func same(a, b nodelabel.Desired) bool {
	return maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// Want returns what a Node should bear, and whether that is known: what was settled
// last, unless the exporter now says what cannot be true.
func (j *Judge) Want(name string, now time.Time) (nodelabel.Desired, bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.nodes[name]
	if n == nil || n.settled == nil || j.finding(name, n, now).State.Refused() {
		return nodelabel.Desired{}, false
	}
	return *n.settled, true
}

// Forget forgets a Node that is gone, or that has no exporter any more.
func (j *Judge) Forget(name string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if n := j.nodes[name]; n != nil {
		j.claims.drop(name, n.claimed)
		delete(j.nodes, name)
	}
}

// Findings returns what is thought of every exporter that was heard.
func (j *Judge) Findings(now time.Time) map[string]Finding {
	j.mu.Lock()
	defer j.mu.Unlock()
	all := make(map[string]Finding, len(j.nodes))
	for name, n := range j.nodes {
		all[name] = j.finding(name, n, now)
	}
	return all
}

// finding looks for others that claim the same GPUs, if the Node's own word stands.
func (j *Judge) finding(name string, n *node, now time.Time) Finding {
	if n.state == Settled || n.state == Unconfirmed || n.state == DriverDown {
		for _, c := range n.claimed {
			for _, other := range j.claims[c] {
				if other != name && now.Sub(j.nodes[other].heard) <= j.lapse {
					return Finding{State: c.duplicate(), Detail: c.String() + " is on two nodes", Other: other}
				}
			}
		}
	}
	return Finding{State: n.state, Detail: n.detail}
}
