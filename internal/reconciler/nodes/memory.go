package nodes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// The least time between two writes of a Node, from the second on: somebody who sets
// our labels again and again is not fought at full speed, and what does not take is
// written ever more seldom. A Node that stayed right for the longest of these times is
// fought over no more.
const apart, apartMax = 2 * time.Second, 5 * time.Minute

// freeAttempts is the number of ineffective writes of a Node before further ones are delayed: a
// hand that edits a few labels in turn is no fight.
const freeAttempts = 5

// memory is what this term did to the Nodes, and what it said of them. It is safe for
// concurrent use.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*remembered
	// failures counts the Nodes whose last write failed, by why.
	failures map[string]int
}

func newMemory() *memory {
	return &memory{nodes: make(map[string]*remembered), failures: make(map[string]int)}
}

type remembered struct {
	// uid and version are the Node's before the last write, want is what was written.
	uid     types.UID
	version string
	want    nodelabel.Desired
	at      time.Time
	// vain counts the writes since the Node last stayed as it should be, failed those
	// since one succeeded.
	vain, failed int
	// since is when the Node was first heard of as it should be after the last write,
	// zero if it is not.
	since time.Time
	// identity is the annotation that the Node bore when it was.
	identity string
	// failure is why the last write failed, empty if it did not.
	failure string
	finding validator.Finding
}

func (m *memory) node(name string) *remembered {
	r := m.nodes[name]
	if r == nil {
		r = &remembered{}
		m.nodes[name] = r
	}
	return r
}

// news reports whether a write is one that was not made already, and how long it has
// to wait.
func (m *memory) news(n *node, want nodelabel.Desired, now time.Time) (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	if r.version == n.ResourceVersion && r.like(n, want) {
		return false, 0
	}
	if !r.since.IsZero() && now.Sub(r.since) >= apartMax || r.uid != n.UID {
		r.vain, r.failed = 0, 0
	}
	r.since = time.Time{}
	wait := min(apart<<min(max(r.vain-freeAttempts, r.failed-1, 0), 10), apartMax)
	return true, wait - now.Sub(r.at)
}

// missed remembers a write that failed: until the next one, whatever happens to the Node,
// it takes as long as if it had been reverted.
func (m *memory) missed(n *node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	r.uid, r.at = n.UID, now
	r.failed++
}

// write remembers a write, and reports whether it is another one than the last.
func (m *memory) write(n *node, want nodelabel.Desired, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	news := !r.like(n, want)
	r.uid, r.version, r.want, r.at = n.UID, n.ResourceVersion, want, now
	r.vain, r.failed, r.since = r.vain+1, 0, time.Time{}
	return news
}

func (r *remembered) like(n *node, want nodelabel.Desired) bool {
	return r.uid == n.UID && r.want.Equal(want)
}

// right remembers that a Node is as it should be, and its identity. It may not stay so:
// every write of ours makes it right for a moment.
func (m *memory) right(name, identity string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	r.identity = identity
	if r.since.IsZero() {
		r.since = now
	}
}

// bore returns the identity of a Node when it last was as it should be.
func (m *memory) bore(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node(name).identity
}

// note remembers the finding about a Node's exporter. It reports whether it is new
// that it is, or is no longer, refused, and which other Node it was refused for before.
func (m *memory) note(name string, f validator.Finding) (news bool, other string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	old := r.finding
	r.finding = f
	return old.State != f.State && (old.State.Refused() || f.State.Refused()), old.Other
}

// failing remembers why the last write of a Node failed, empty if it did not. It reports
// whether that is news: the first Node to fail for this reason, or the last to fail at all.
func (m *memory) failing(name, reason string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	if r.failure == reason {
		return false
	}
	m.unfail(r.failure)
	r.failure = reason
	if reason == "" {
		return len(m.failures) == 0
	}
	m.failures[reason]++
	return m.failures[reason] == 1
}

func (m *memory) unfail(reason string) {
	if m.failures[reason]--; m.failures[reason] <= 0 {
		delete(m.failures, reason)
	}
}

func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if r := m.nodes[name]; r != nil {
		m.unfail(r.failure)
		delete(m.nodes, name)
	}
}

// set is a set of Nodes. It is safe for concurrent use.
type set struct {
	mu    sync.Mutex
	names map[string]struct{}
}

func newSet() *set { return &set{names: make(map[string]struct{})} }

// add reports whether the name was not in it.
func (s *set) add(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, had := s.names[name]
	s.names[name] = struct{}{}
	return !had
}

func (s *set) remove(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.names, name)
}

func (s *set) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.names)
}
