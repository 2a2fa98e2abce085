package nodes

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestHangingExporters checks that exporters that hang do not delay the others.
func TestHangingExporters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const fleet, hanging = 5000, 1000
		w := newWorld(t)
		trm := w.term(nil)
		trm.owners.set(worldDaemonSet.Namespace, worldDaemonSet.Name, worldDaemonSetUID)
		for i := range fleet {
			node := fmt.Sprintf("node-%04d", i)
			w.setSerial(node, node)
			w.hangs[node] = i%(fleet/hanging) == 0
			trm.follow(w.opts.Exporters.Keep(exporterOn(node, worldDaemonSetUID)))
		}
		swept := trm.fleet.sweep()
		var reading sync.WaitGroup
		reading.Go(func() { trm.readAll(t.Context()) })
		defer reading.Wait()
		defer trm.reads.ShutDown()
		defer trm.writes.ShutDown()

		begun := time.Now()
		for len(w.readSince(begun)) < fleet-hanging {
			if w.wait(time.Second); time.Since(begun) > 10*time.Minute {
				t.Fatalf("only %d exporters were read", len(w.readSince(begun)))
			}
		}
		took := time.Since(begun)
		<-swept
		t.Logf("%d of %d exporters hang: the others were read within %v, by %d lanes; every one was tried within %v",
			hanging, fleet, took, w.opts.Concurrency, time.Since(begun))
		if took > 45*time.Second {
			t.Errorf("the healthy exporters were read within %v", took)
		}
		// The next round is not slower: exporters that hang are read less and less often.
		begun = time.Now()
		w.wait(w.opts.Resync*5/4 + 30*time.Second)
		if got := len(w.readSince(begun)); got != fleet-hanging {
			t.Errorf("%d exporters were read in the second round, want %d", got, fleet-hanging)
		}
	})
}
