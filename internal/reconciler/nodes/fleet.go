package nodes

import (
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

// fleet contains the known exporters and their Nodes.
type fleet struct {
	mu      sync.Mutex
	targets map[cache.ObjectName]exporter.Target
	// disowned contains pods whose owner reference has the name of a listed DaemonSet but another UID.
	disowned map[cache.ObjectName]struct{}
	nodes    map[string]map[cache.ObjectName]struct{} // exporters on each Node
	lost     map[string]time.Time
	began    time.Time

	// unread contains the exporters that existed at the last call of sweep and have not been read yet. swept is closed
	// when unread is empty.
	unread map[cache.ObjectName]struct{}
	swept  chan struct{}
	// read contains the exporters to which a request was sent since they last started. failing contains the exporters
	// whose last request failed.
	read    map[cache.ObjectName]struct{}
	failing map[cache.ObjectName]error
}

func newFleet() *fleet {
	return &fleet{
		targets: make(map[cache.ObjectName]exporter.Target), disowned: make(map[cache.ObjectName]struct{}), nodes: make(map[string]map[cache.ObjectName]struct{}), lost: make(map[string]time.Time),
		began: time.Now(), read: make(map[cache.ObjectName]struct{}), failing: make(map[cache.ObjectName]error),
	}
}

// put adds or replaces an exporter. It returns true if the exporter must be read, because it became ready or restarted.
func (f *fleet) put(name cache.ObjectName, t exporter.Target) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.disowned, name)
	old, known := f.targets[name]
	if known && old.Node != t.Node {
		f.drop(name, old, time.Now())
		known = false
	}
	if !known {
		if f.nodes[t.Node] == nil {
			f.nodes[t.Node] = make(map[cache.ObjectName]struct{}, 1)
		}
		f.nodes[t.Node][name] = struct{}{}
		delete(f.lost, t.Node)
	}
	f.targets[name] = t
	if old.Address != t.Address || old.Run != t.Run {
		delete(f.read, name)
		return t.Address != ""
	}
	return false
}

// remove removes an exporter. It returns the exporter's Node, and whether the Node now has no exporter.
func (f *fleet) remove(name cache.ObjectName, now time.Time) (string, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.disowned, name)
	t, ok := f.targets[name]
	if !ok {
		return "", false
	}
	f.drop(name, t, now)
	f.asked(name)
	return t.Node, len(f.nodes[t.Node]) == 0
}

func (f *fleet) disown(name cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disowned[name] = struct{}{}
}

func (f *fleet) drop(name cache.ObjectName, t exporter.Target, now time.Time) {
	delete(f.targets, name)
	delete(f.read, name)
	delete(f.failing, name)
	if delete(f.nodes[t.Node], name); len(f.nodes[t.Node]) == 0 {
		delete(f.nodes, t.Node)
		f.lost[t.Node] = now
	}
}

func (f *fleet) target(name cache.ObjectName) exporter.Target {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.targets[name]
}

func (f *fleet) on(node string) []cache.ObjectName {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.nodes[node]))
}

// has reports whether a Node has an exporter. If the Node has no exporter, has also returns the time at which the Node
// lost its last exporter. This time is never before this replica became the leader.
func (f *fleet) has(node string) (bool, time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.nodes[node]) > 0 {
		return true, time.Time{}
	}
	if since, ok := f.lost[node]; ok {
		return false, since
	}
	return false, f.began
}

func (f *fleet) forget(node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.lost, node)
}

// sweep returns a channel that is closed when every present exporter has been read once.
func (f *fleet) sweep() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.swept = make(chan struct{})
	f.unread = make(map[cache.ObjectName]struct{})
	for name, t := range f.targets {
		if t.Address != "" {
			f.unread[name] = struct{}{}
		}
	}
	if len(f.unread) == 0 {
		close(f.swept)
	}
	return f.swept
}

// tried records the result of a request to an exporter. It returns true if the exporter begins to fail or responds
// again.
func (f *fleet) tried(name cache.ObjectName, err error) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked(name)
	if _, ok := f.targets[name]; !ok {
		return false
	}
	f.read[name] = struct{}{}
	_, failed := f.failing[name]
	if err == nil {
		delete(f.failing, name)
	} else {
		f.failing[name] = err
	}
	return failed != (err != nil)
}

func (f *fleet) skipped(name cache.ObjectName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked(name)
	delete(f.read, name)
	delete(f.failing, name)
}

func (f *fleet) asked(name cache.ObjectName) {
	if _, ok := f.unread[name]; !ok {
		return
	}
	if delete(f.unread, name); len(f.unread) == 0 {
		close(f.swept)
	}
}

func (f *fleet) withExporter() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.nodes))
}

// size returns the number of Nodes with an exporter.
func (f *fleet) size() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.nodes)
}

const (
	conditionAnswering = "answering"
	conditionFailing   = "failing"
	conditionUnread    = "unread"
	conditionNotReady  = "not_ready"
	conditionNotOwned  = "not_owned"
)

func (f *fleet) census() map[string]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	count := map[string]int{conditionAnswering: 0, conditionFailing: 0, conditionUnread: 0, conditionNotReady: 0, conditionNotOwned: len(f.disowned)}
	for name, t := range f.targets {
		_, read := f.read[name]
		switch {
		case t.Address == "":
			count[conditionNotReady]++
		case !read:
			count[conditionUnread]++
		case f.failing[name] != nil:
			count[conditionFailing]++
		default:
			count[conditionAnswering]++
		}
	}
	return count
}
