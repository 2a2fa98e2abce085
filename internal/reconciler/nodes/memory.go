package nodes

import (
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/gpuledger/gpuledger/internal/nodelabel"
	"github.com/gpuledger/gpuledger/internal/reconciler/verdict"
)

// The least time between two writes of a Node, from the second on: somebody who sets
// our labels again and again is not fought at full speed, and what does not take is
// written ever more seldom.
const apart, apartMax = 2 * time.Second, 5 * time.Minute

// memory is what this term did to the Nodes, and what it said of them. It is safe for
// concurrent use.
type memory struct {
	mu    sync.Mutex
	nodes map[string]*remembered
	// failure is why the last write failed, empty if it did not.
	failure string
}

type remembered struct {
	// uid and version are the Node's before the last write, want is what was written.
	uid     types.UID
	version string
	want    nodelabel.Desired
	at      time.Time
	// vain counts the writes since the Node was last as it should be.
	vain int
	// identity is the annotation that the Node bore when it was.
	identity string
	finding  verdict.Finding
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
func (m *memory) news(n *corev1.Node, want nodelabel.Desired, now time.Time) (bool, time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	if r.version == n.ResourceVersion && r.like(n, want) {
		return false, 0
	}
	wait := min(apart<<min(max(r.vain-1, 0), 10), apartMax)
	return true, wait - now.Sub(r.at)
}

// write remembers a write, and reports whether it is another one than the last.
func (m *memory) write(n *corev1.Node, want nodelabel.Desired, now time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(n.Name)
	news := !r.like(n, want)
	r.uid, r.version, r.want, r.at = n.UID, n.ResourceVersion, want, now
	r.vain++
	return news
}

func (r *remembered) like(n *corev1.Node, want nodelabel.Desired) bool {
	return r.uid == n.UID && maps.Equal(r.want.Labels, want.Labels) && maps.Equal(r.want.Annotations, want.Annotations)
}

// right remembers that a Node is as it should be, and its identity.
func (m *memory) right(name, identity string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	r.vain, r.identity = 0, identity
}

// bore returns the identity of a Node when it last was as it should be.
func (m *memory) bore(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.node(name).identity
}

// judged remembers what is thought of a Node's exporter. It reports whether it is news
// that it is, or is no longer, refused, and which other Node it was refused for before.
func (m *memory) judged(name string, f verdict.Finding) (news bool, other string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.node(name)
	old := r.finding
	r.finding = f
	return old.State != f.State && (old.State.Refused() || f.State.Refused()), old.Other
}

// failing remembers why the last write failed, and reports whether that is news.
func (m *memory) failing(reason string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	old := m.failure
	m.failure = reason
	return old != reason
}

func (m *memory) forget(name string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.nodes, name)
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
