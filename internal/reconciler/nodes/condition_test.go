package nodes

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/health"
)

func (w *world) condition(node string) *corev1.NodeCondition {
	w.t.Helper()
	n, err := w.kube.Nodes().Get(w.t.Context(), node, metav1.GetOptions{})
	w.check(err)
	i := slices.IndexFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == "GPULedgerHealthy" })
	if i < 0 {
		return nil
	}
	return &n.Status.Conditions[i]
}

func (w *world) setHealth(node string, advice health.Advice, code string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := health.Page{Version: 1, Advice: advice}
	if code != "" {
		p.GPUs = []health.GPU{{Serial: "S1", PCIBusID: "00000000:1B:00.0", Advice: advice, Evidence: []health.Evidence{{Code: code, Advice: advice, Count: 3}}}}
	}
	w.health[node] = p
}

// TestCondition checks the condition after a board fails, after a reset of the board, and after the exporter stops
// responding. While nothing changes, the reconciler must not write the Node.
func TestCondition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Condition = true
		w.createExporter("a")
		w.createNode("without-gpus", "u2")
		_, stop := w.lead()
		want := func(status corev1.ConditionStatus, reason, message string) {
			t.Helper()
			w.wait(2 * time.Minute)
			c := w.condition("a")
			if c == nil || c.Status != status || c.Reason != reason || !strings.Contains(c.Message, message) {
				t.Fatalf("condition %+v, want %s, %s, %q", c, status, reason, message)
			}
		}
		w.wait(10 * time.Minute)
		if c := w.condition("a"); c != nil {
			t.Errorf("condition before the first reading: %+v", c)
		}
		w.setHealth("a", health.OK, "")
		want(corev1.ConditionTrue, "OK", "")
		w.setHealth("a", health.Watch, "xid_94")
		want(corev1.ConditionTrue, "Watch", "watch, serial S1, PCI 00000000:1B:00.0: xid_94")
		w.setHealth("a", health.Reset, "xid_48")
		want(corev1.ConditionFalse, "Reset", "reset, serial S1, PCI 00000000:1B:00.0: xid_48")
		since, writes := w.condition("a").LastTransitionTime, len(w.kube.Actions())
		w.wait(time.Hour)
		for _, a := range w.kube.Actions()[writes:] {
			if a.GetVerb() == "patch" {
				t.Errorf("a write without a change: %v", a)
			}
		}
		w.setHealth("a", health.Return, "row_remap_failure")
		want(corev1.ConditionFalse, "Return", "row_remap_failure")
		if c := w.condition("a"); !c.LastTransitionTime.Equal(&since) {
			t.Errorf("the status changed at %v, want %v", c.LastTransitionTime, since)
		}
		w.setHealth("a", "explode", "new_code")
		want(corev1.ConditionFalse, "Unknown", "new_code")
		w.setHealth("a", health.OK, "")
		want(corev1.ConditionTrue, "OK", "")
		w.mu.Lock()
		w.hangs["a"] = true
		w.mu.Unlock()
		want(corev1.ConditionTrue, "OK", "") // the condition remains for healthAge
		w.wait(6 * time.Minute)
		want(corev1.ConditionUnknown, "NotRead", "five minutes")
		if c := w.condition("without-gpus"); c != nil {
			t.Errorf("a Node without an exporter has the condition %+v", c)
		}
		stop()
		w.check(Cleanup(t.Context(), w.kube, w.opts, slog.New(slog.DiscardHandler)))
		if c := w.condition("a"); c != nil {
			t.Errorf("condition after cleanup: %+v", c)
		}
	})
}

// TestConditionEvents checks that each change of a Node's condition causes one Event. A Node that was always healthy
// must have no Event. A Node that waits for the budget, and a failed write, must cause no Event either.
func TestConditionEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Condition = true
		nodes := w.newFleet(11)
		for _, n := range nodes {
			w.setHealth(n, health.OK, "")
		}
		var refused atomic.Bool
		w.kube.PrependReactor("patch", "nodes", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if a.GetSubresource() == "status" && refused.Load() {
				return true, nil, errors.New("refused")
			}
			return false, nil, nil
		})
		_, stop := w.lead()
		defer stop()
		var seen []string
		want := func(events ...string) {
			t.Helper()
			w.wait(3 * time.Minute)
			list, err := w.kube.Events("").List(t.Context(), metav1.ListOptions{})
			w.check(err)
			var got []string
			for _, e := range list.Items {
				if e.InvolvedObject.Kind != "Node" || e.InvolvedObject.UID != types.UID("uid-"+e.InvolvedObject.Name) {
					t.Errorf("event of %+v", e.InvolvedObject)
				}
				got = append(got, strings.Join([]string{e.InvolvedObject.Name, e.Type, e.Reason, e.Message}, "|"))
			}
			seen = append(seen, events...)
			slices.Sort(seen)
			if slices.Sort(got); !slices.Equal(got, seen) {
				t.Fatalf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(seen, "\n"))
			}
		}
		want()
		w.setHealth(nodes[0], health.Watch, "xid_94")
		want(nodes[0] + "|Normal|Watch|GPULedgerHealthy is True: watch, serial S1, PCI 00000000:1B:00.0: xid_94")
		refused.Store(true)
		w.setHealth(nodes[0], health.Return, "row_remap_failure")
		want()
		refused.Store(false)
		w.wait(5 * time.Minute)
		want(nodes[0] + "|Warning|Return|GPULedgerHealthy is False: return, serial S1, PCI 00000000:1B:00.0: row_remap_failure")
		for _, n := range nodes[1:] {
			w.setHealth(n, health.Reset, "xid_48")
		}
		w.wait(3 * time.Minute)
		list, err := w.kube.Events("").List(t.Context(), metav1.ListOptions{})
		w.check(err)
		if n := len(list.Items); n != 2+9 {
			t.Errorf("%d events, want 11: the tenth change of the hour is the last", n)
		}
	})
}

// TestConditionBudget checks that at most ten Nodes per hour become unhealthy, even after a change of leader.
func TestConditionBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.opts.Condition = true
		nodes := w.newFleet(40)
		for _, n := range nodes {
			w.setHealth(n, health.OK, "")
		}
		unhealthy := func() (count int) {
			for _, n := range nodes {
				if c := w.condition(n); c != nil && c.Status == corev1.ConditionFalse {
					count++
				}
			}
			return count
		}
		for range 2 {
			_, stop := w.lead()
			w.wait(3 * time.Minute)
			for _, n := range nodes {
				w.setHealth(n, health.Reset, "fabric_failed")
			}
			w.wait(20 * time.Minute)
			stop()
			if n := unhealthy(); n != 10 {
				t.Errorf("%d Nodes are unhealthy, want 10", n)
			}
		}
		_, stop := w.lead()
		defer stop()
		w.wait(time.Hour)
		if n := unhealthy(); n != 20 {
			t.Errorf("%d Nodes are unhealthy after an hour, want 20", n)
		}
	})
}

// TestConditionOff checks that the reconciler reads no health pages if --node-condition is not set. A dry run must
// write no condition.
func TestConditionOff(t *testing.T) {
	for _, dry := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			w := newWorld(t)
			w.opts.Condition, w.opts.DryRun = dry, dry
			w.createExporter("a")
			w.setHealth("a", health.Return, "row_remap_failure")
			_, stop := w.lead()
			defer stop()
			w.wait(10 * time.Minute)
			if c := w.condition("a"); c != nil {
				t.Errorf("dry run %v: condition %+v", dry, c)
			}
		})
	}
}

func TestConditionMessage(t *testing.T) {
	var p health.Page
	p.Advice = health.Return
	for i := range 60 {
		p.GPUs = append(p.GPUs, health.GPU{Serial: fmt.Sprintf("S%d\n\u00e9", i), Advice: health.Return, Evidence: []health.Evidence{{Code: "xid_48", Count: 4711}}})
	}
	c := newCondition(&p)
	if len(c.message) > 1024 || !utf8.ValidString(c.message) || strings.ContainsAny(c.message, "\n") || strings.Contains(c.message, "4711") {
		t.Errorf("message: %q", c.message)
	}
}
