package nodes

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

var size = flag.Int("size", 100, "number of Nodes in TestLargeFleet")

// TestLargeFleet checks the number of lists and watches, and the number of reads and writes per Node. They must not
// depend on the number of Nodes. The permitted rates are proportional to the number of Nodes, so the duration of each
// part does not depend on this number either. TestGrowth in package reconciler runs this test with two sizes and
// compares the executions of each statement.
func TestLargeFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.listPodsAfter = time.Second // the DaemonSet must exist before the pods, because otherwise some pods may be processed twice
		w.opts.Writes, w.opts.Rate, w.opts.LabelTTL = float64(*size)/10, float64(*size), 0
		var nodes []string
		for i := range *size {
			nodes = append(nodes, fmt.Sprintf("node-%05d", i))
			w.createExporter(nodes[i])
		}
		w.kube.ClearActions()
		trm, stop := w.lead()
		defer stop()
		rest := func(d time.Duration) {
			for range 10 {
				w.wait(d / 10)
				w.scrape(trm)
			}
		}

		rest(time.Minute)
		w.wantRequests("cold start", map[string]int{ // the first watch of each resource is refused
			"list nodes": 1, "watch nodes": 2, "list pods": 1, "watch pods": 2, "list daemonsets": 1, "watch daemonsets": 2, "patch nodes": *size,
		})
		w.wantReads("cold start", 2*(*size)) // the second read confirms the first
		if got := len(w.labelled(nodes, "-1")); got != *size {
			t.Fatalf("%d of %d Nodes have labels", got, *size)
		}

		w.kube.ClearActions()
		rest(time.Hour)
		w.wantRequests("an hour without changes", map[string]int{})
		for _, n := range nodes {
			w.setSerial(n, n+"-2")
		}
		_ = w.lease.Edit(t.Context(), func(a map[string]string) { a[approvedKey] = fmt.Sprint(*size) })
		rest(time.Hour)
		w.wantRequests("an approved change", map[string]int{"patch nodes": *size})
		if got := len(w.labelled(nodes, "-2")); got != *size {
			t.Errorf("%d of %d Nodes have the labels of their new boards", got, *size)
		}
	})
}

// wantRequests checks the requests to the API server since the previous call, except requests from the test.
func (w *world) wantRequests(part string, want map[string]int) {
	w.t.Helper()
	got := make(map[string]int)
	for _, a := range w.kube.Actions() {
		if a.GetVerb() != "get" { // requests from the test and for discovery
			got[a.GetVerb()+" "+a.GetResource().Resource]++
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("requests in %s (-want +got):\n%s", part, diff)
	}
	w.kube.ClearActions()
}

func (w *world) wantReads(part string, want int) {
	w.t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.reads != want {
		w.t.Errorf("%d readings of exporters in %s, want %d", w.reads, part, want)
	}
}

func (w *world) scrape(trm *term) {
	ch := make(chan prometheus.Metric, 100)
	go func() {
		defer close(ch)
		trm.collect(ch, time.Now())
	}()
	for range ch {
	}
}
