package nodes

import (
	"errors"
	"maps"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/cache"

	"github.com/gpuledger/gpuledger/internal/reconciler/exporter"
)

func name(pod string) cache.ObjectName { return cache.NewObjectName("gpuledger", pod) }

// TestFleetReads checks that an exporter is read when it becomes ready, restarts or moves, but not after other changes
// of its pod.
func TestFleetReads(t *testing.T) {
	steps := []struct {
		what   string
		target exporter.Target
		want   bool
	}{
		{"new, not ready", exporter.Target{Node: "a", Run: "1"}, false},
		{"ready", exporter.Target{Node: "a", Run: "1", Address: "10.0.0.1:9840"}, true},
		{"as before", exporter.Target{Node: "a", Run: "1", Address: "10.0.0.1:9840"}, false},
		{"restarts", exporter.Target{Node: "a", Run: "2"}, false},
		{"ready again", exporter.Target{Node: "a", Run: "2", Address: "10.0.0.1:9840"}, true},
		{"restarted between two events", exporter.Target{Node: "a", Run: "3", Address: "10.0.0.1:9840"}, true},
		{"another exporter with the same name on another Node", exporter.Target{Node: "b", Run: "4", Address: "10.0.0.2:9840"}, true},
	}
	f := newFleet()
	for _, s := range steps {
		if got := f.put(name("x"), s.target); got != s.want {
			t.Errorf("%s: must be read: %v, want %v", s.what, got, s.want)
		}
	}
	if has, _ := f.has("a"); has || f.size() != 1 {
		t.Errorf("node a has an exporter: %v; %d nodes have one", has, f.size())
	}
}

// TestFleetLost checks the time at which a Node lost its last exporter. The time is never before the creation of the
// fleet.
func TestFleetLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet()
		began := time.Now()
		f.put(name("x"), exporter.Target{Node: "a"})
		f.put(name("y"), exporter.Target{Node: "a"})
		<-time.After(time.Minute)
		if node, last := f.remove(name("x"), time.Now()); node != "a" || last {
			t.Errorf("removed one of two exporters on node a: node %q, last %v", node, last)
		}
		if has, _ := f.has("a"); !has {
			t.Error("the other exporter is missing")
		}
		if node, last := f.remove(name("y"), time.Now()); node != "a" || !last {
			t.Errorf("removed the last exporter on node a: node %q, last %v", node, last)
		}
		if _, last := f.remove(name("y"), time.Now()); last {
			t.Error("an exporter was removed twice")
		}
		if has, since := f.has("a"); has || since.Sub(began) != time.Minute {
			t.Errorf("node a lost its exporter after %v", since.Sub(began))
		}
		if has, since := f.has("never"); has || !since.Equal(began) {
			t.Errorf("a node that never had an exporter has had none since %v after the start", since.Sub(began))
		}
		f.put(name("z"), exporter.Target{Node: "a"})
		if has, _ := f.has("a"); !has {
			t.Error("a new exporter is missing")
		}
	})
}

func TestFleetSweep(t *testing.T) {
	done := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	if !done(newFleet().sweep()) {
		t.Error("a sweep without exporters does not end")
	}
	f := newFleet()
	ready := exporter.Target{Node: "a", Address: "10.0.0.1:9840"}
	f.put(name("answers"), ready)
	f.put(name("fails"), ready)
	f.put(name("goes"), ready)
	f.put(name("not-ready"), exporter.Target{Node: "a"})
	swept := f.sweep()
	f.put(name("late"), ready)
	if !f.tried(name("fails"), errors.New("refused")) || f.tried(name("fails"), errors.New("refused")) || f.tried(name("answers"), nil) {
		t.Error("the wrong results are reported as changes")
	}
	if done(swept) {
		t.Error("the sweep ended early")
	}
	f.remove(name("goes"), time.Now())
	if !done(swept) {
		t.Error("the sweep does not end")
	}
	f.disown(name("forged"))
	want := map[string]int{conditionAnswering: 1, conditionFailing: 1, conditionUnread: 1, conditionNotReady: 1, conditionNotOwned: 1}
	if diff := cmp.Diff(want, f.census()); diff != "" {
		t.Errorf("census (-want +got):\n%s", diff)
	}
	if !f.tried(name("fails"), nil) {
		t.Error("the first response after a failure is not reported as a change")
	}
}

// TestCensus checks that an exporter counts as responding only if it was read since its last start.
func TestCensus(t *testing.T) {
	f := newFleet()
	ready := exporter.Target{Node: "a", Run: "1", Address: "10.0.0.1:9840"}
	restarted := ready
	restarted.Run = "2"
	steps := []struct {
		what string
		do   func()
		want map[string]int
	}{
		{"found", func() { f.put(name("x"), ready) }, map[string]int{"unread": 1}},
		{"changed", func() { f.put(name("x"), ready) }, map[string]int{"unread": 1}},
		{"read", func() { f.tried(name("x"), nil) }, map[string]int{"answering": 1}},
		{"read again", func() { f.tried(name("x"), errors.New("timeout")) }, map[string]int{"failing": 1}},
		{"restarted", func() { f.put(name("x"), restarted) }, map[string]int{"unread": 1}},
		{"read after a restart", func() { f.tried(name("x"), nil) }, map[string]int{"answering": 1}},
		{"not ready", func() { f.put(name("x"), exporter.Target{Node: "a", Run: "2"}) }, map[string]int{"not_ready": 1}},
		{"tried while not ready", func() { f.tried(name("x"), nil) }, map[string]int{"not_ready": 1}},
		{"ready again", func() { f.put(name("x"), restarted) }, map[string]int{"unread": 1}},
		{"gone", func() { f.remove(name("x"), time.Now()) }, nil},
		{"found again", func() { f.put(name("x"), ready) }, map[string]int{"unread": 1}},
		{"another pod", func() { f.disown(name("y")) }, map[string]int{"unread": 1, "not_owned": 1}},
	}
	for _, s := range steps {
		s.do()
		want := map[string]int{"answering": 0, "failing": 0, "unread": 0, "not_ready": 0, "not_owned": 0}
		maps.Copy(want, s.want)
		if diff := cmp.Diff(want, f.census()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", s.what, diff)
		}
	}
}
