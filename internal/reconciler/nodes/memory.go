package nodes

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/validator"
)

// apart and apartMax are the shortest and the longest interval between writes of a Node if another client reverts each
// write. After freeAttempts writes, the interval doubles with each write. After the Node has been correct for the time
// apartMax, the interval is reset to apart.
const apart, apartMax = 2 * time.Second, 5 * time.Minute

// freeAttempts is the number of writes that another client may revert before the interval grows. It is not 0, because a
// person may edit a few labels one after the other.
const freeAttempts = 5

// memory records the last writes of Nodes and their results. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*remembered
	// failures contains the number of Nodes that could not be written at the last attempt, by reason.
	failures map[string]int
}

func newMemory() *memory {
	return &memory{nodes: make(map[string]*remembered), failures: make(map[string]int)}
}

type remembered struct {
	// uid and version are the UID and the resource version of the Node before the last write. want is the state that
	// the last write contained.
	uid     types.UID
	version string
	want    nodelabel.Desired
	at      time.Time
	// ineffective is the number of writes since the Node was last correct. failed is the number of failed writes since
	// the last successful write.
	ineffective, failed int
	// since is the time at which the Node became correct after the last write, or zero while it is not correct.
	since time.Time
	// identity is the inventory annotation of the Node when it was last correct.
	identity string
	// failure is the reason why the last write failed, or empty.
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

// news returns false if the last write of the Node contained the same state and the update event of this write has not
// arrived yet. Otherwise it returns true, and the time for which the next write must wait.
func (m *memory) news(n *node, want nodelabel.Desired, now time.Time) (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	if r.version == n.ResourceVersion && r.like(n, want) {
		return false, 0
	}
	if !r.since.IsZero() && now.Sub(r.since) >= apartMax || r.uid != n.UID {
		r.ineffective, r.failed = 0, 0
	}
	r.since = time.Time{}
	wait := min(apart<<min(max(r.ineffective-freeAttempts, r.failed-1, 0), 10), apartMax)
	return true, wait - now.Sub(r.at)
}

// missed records a failed write. Each further failure doubles the delay of the next write.
func (m *memory) missed(n *node, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	r.uid, r.at = n.UID, now
	r.failed++
}

// write records a write of a Node. It returns true if the written state differs from the state in the last write.
func (m *memory) write(n *node, want nodelabel.Desired, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	news := !r.like(n, want)
	r.uid, r.version, r.want, r.at = n.UID, n.ResourceVersion, want, now
	r.ineffective, r.failed, r.since = r.ineffective+1, 0, time.Time{}
	return news
}

func (r *remembered) like(n *node, want nodelabel.Desired) bool {
	return r.uid == n.UID && r.want.Equal(want)
}

// right records that a Node has the desired labels. This does not immediately shorten the interval between writes.
// Another client may be reverting each write, and then the labels are correct only for a moment.
func (m *memory) right(name, identity string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	r.identity = identity
	if r.since.IsZero() {
		r.since = now
	}
}

func (m *memory) lastIdentity(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node(name).identity
}

// note records the validator's finding about a Node's inventory. It returns true if the state has changed and the old
// or the new state rejects the inventory. It also returns the other Node in the previous finding.
func (m *memory) note(name string, f validator.Finding) (news bool, other string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	old := r.finding
	r.finding = f
	return old.State != f.State && (old.State.Refused() || f.State.Refused()), old.Other
}

// failing records the reason why the last write of a Node failed, or an empty reason after a success. It returns true
// if the result must be logged. A failure is logged only for the first Node with this reason. A success is logged only
// when writes no longer fail for any Node.
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

type set struct {
	mu    sync.Mutex
	names map[string]struct{}
}

func newSet() *set { return &set{names: make(map[string]struct{})} }

// add reports whether the name is new.
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
