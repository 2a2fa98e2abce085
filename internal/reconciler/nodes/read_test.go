package nodes

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/health"
)

// most is the longest time that a healthy exporter may wait while other exporters hang.
const most = time.Minute

// TestHangingExporters checks that any number of hanging exporters delays the other exporters by at most a minute.
func TestHangingExporters(t *testing.T) {
	for _, tt := range []struct{ fleet, healthy int }{{5000, 3000}, {10_000, 1}} {
		t.Run(fmt.Sprintf("%d of %d hang", tt.fleet-tt.healthy, tt.fleet), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				trm, add := w.reading()
				for i := range tt.fleet {
					add(fmt.Sprintf("node-%05d", i), i < tt.fleet-tt.healthy) // the last exporters are healthy
				}
				swept := trm.fleet.sweep()
				var reading sync.WaitGroup
				reading.Go(func() { trm.readAll(t.Context()) })
				defer reading.Wait()
				defer trm.reads.ShutDown()
				defer trm.writes.ShutDown()

				begun := time.Now()
				w.waitForReads(begun, tt.healthy)
				<-swept // no Node is written before all exporters have been read once
				if took := time.Since(begun); took > most {
					t.Errorf("the first round took %v", took)
				}
				// This exporter becomes ready while the requests to the hanging exporters are repeated.
				for i := range 6 {
					w.wait(time.Duration(i*i) * 10 * time.Second)
					begun := time.Now()
					add(fmt.Sprintf("late-%d", i), false)
					w.waitForReads(begun, 1)
				}
			})
		})
	}
}

// TestHangingExportersDelayLabels checks a Node while 2,000 exporters hang. The Node must be labelled after at most two
// minutes: a minute for the first reading, and a minute for its confirmation.
func TestHangingExportersDelayLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Resync = time.Minute
		trm, add := w.reading()
		for i := range 2000 {
			add(fmt.Sprintf("hangs-%04d", i), true)
		}
		w.createNode("healthy", "uid")
		add("healthy", false) // the last Node
		var working sync.WaitGroup
		working.Go(func() { w.check(trm.work(t.Context())) })
		defer working.Wait()
		defer trm.reads.ShutDown()
		defer trm.writes.ShutDown()
		for _, version := range []string{"-1", "-2", "-3"} {
			w.setSerial("healthy", "healthy"+version)
			w.wait(w.opts.Resync*5/4 + w.opts.Confirm*5/4 + 2*most)
			if got := w.labels("healthy")["gpu-0"]; got != "healthy"+version {
				t.Errorf("the label is %q, want version %s", got, version)
			}
		}
	})
}

// reading returns a term without informers, and a function that adds an exporter to this term.
func (w *world) reading() (trm *term, add func(node string, hangs bool)) {
	trm = w.term(nil)
	trm.owners.set(worldDaemonSet.Namespace, worldDaemonSet.Name, worldDaemonSetUID)
	return trm, func(node string, hangs bool) {
		w.setSerial(node, node)
		w.setHealth(node, health.OK, "")
		kept, err := w.opts.keep(gpuNode(node, "uid"))
		w.check(errors.Join(err, trm.nodes.GetStore().Add(kept)))
		w.mu.Lock()
		w.hangs[node] = hangs
		w.mu.Unlock()
		trm.follow(w.opts.Exporters.Keep(exporterOn(node, worldDaemonSetUID)))
	}
}

// waitForReads waits until the given number of exporters has been read since the time begun. It fails if the wait is
// too long.
func (w *world) waitForReads(begun time.Time, number int) {
	w.t.Helper()
	for len(w.readSince(begun)) < number {
		if w.wait(time.Second); time.Since(begun) > 10*time.Minute {
			w.t.Fatalf("only %d exporters were read", len(w.readSince(begun)))
		}
	}
	if took := time.Since(begun); took > most {
		w.t.Errorf("healthy exporters were read after %v", took)
	}
}

func TestHangingHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Condition = true
		for i := range 600 {
			node := fmt.Sprintf("node-%04d", i)
			w.createExporter(node)
			w.hangs[node] = i > 0
		}
		w.setHealth("node-0000", health.OK, "")
		_, stop := w.lead()
		defer stop()
		w.wait(5 * time.Minute)
		if c := w.condition("node-0000"); c == nil || c.Status != corev1.ConditionTrue {
			t.Fatalf("condition after five minutes: %+v", c)
		}
		for range 3 {
			for _, advice := range []health.Advice{health.Return, health.OK} {
				w.setHealth("node-0000", advice, "64")
				w.wait(healthEvery*5/4 + most)
				if c := w.condition("node-0000"); (c.Status == corev1.ConditionTrue) != (advice == health.OK) {
					t.Errorf("condition is %s a minute after the reading was due, but the advice is %s", c.Status, advice)
				}
			}
		}
	})
}
