package nodes

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
)

// TestTermEndsAtOnce checks that an early end of the context causes no error. An error would end the program.
func TestTermEndsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		pods := watch.Informer(w.kube.Pods(worldDaemonSet.Namespace), &corev1.Pod{})
		ctx, end := context.WithCancel(t.Context())
		end()
		pods.RunWithContext(ctx)
		trm := w.term(pods)
		if err := trm.run(ctx); err != nil {
			t.Errorf("the term ended with %v", err)
		}
		trm.reads.ShutDown()
		trm.writes.ShutDown()
	})
}

// TestOwners checks that a pod counts as an exporter only while its DaemonSet exists with the UID in the owner
// reference.
func TestOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.createExporter("true")
		w.createExporter("forged")
		w.check(w.kube.Pods(worldDaemonSet.Namespace).Delete(t.Context(), "exporter-forged", metav1.DeleteOptions{}))
		w.createPod("forged", "invented")
		trm, stop := w.lead()
		defer stop()
		w.wait(time.Minute)
		if got := w.readSince(time.Time{}); !slices.Equal(got, []string{"true"}) {
			t.Errorf("exporters read: %v", got)
		}
		if got := w.labels("forged"); len(got) > 0 {
			t.Errorf("labels written because of a forged owner: %v", got)
		}
		if w.labels("true")["gpu-0"] != "true-1" || trm.fleet.census()[conditionNotOwned] != 1 {
			t.Errorf("labels %v, census %v", w.labels("true"), trm.fleet.census())
		}

		// After a DaemonSet is deleted, it owns no pods. A new DaemonSet with the same name does not own the pods of
		// the old DaemonSet.
		daemonSets := w.kube.DaemonSets(worldDaemonSet.Namespace)
		w.check(daemonSets.Delete(t.Context(), worldDaemonSet.Name, metav1.DeleteOptions{}))
		synctest.Wait()
		if got := trm.fleet.census(); got[conditionNotOwned] != 2 || trm.fleet.size() != 0 {
			t.Errorf("census without the daemonset: %v", got)
		}
		w.createDaemonSet("invented")
		w.wait(time.Minute)
		if got := slices.Sorted(maps.Keys(trm.fleet.nodes)); !slices.Equal(got, []string{"forged"}) {
			t.Errorf("exporters of the other daemonset: %v", got)
		}
		if n := strings.Count(w.logs.String(), "daemonset named by --exporter.daemonsets not found"); n != 1 {
			t.Errorf("the log reports the missing daemonset %d times:\n%s", n, w.logs)
		}
	})
}

// TestRegisteredAgain checks a Node that registers again with another machine. It must get the labels of the new
// machine at once, even if the exporter's pod is unchanged.
func TestRegisteredAgain(t *testing.T) {
	for name, register := range map[string]func(*world){
		"deleted and created": func(w *world) {
			w.check(w.kube.Nodes().Delete(w.t.Context(), "a", metav1.DeleteOptions{}))
			w.createNode("a", "other")
		},
		"in one update": func(w *world) { // this event arrives after a broken watch
			_, err := w.kube.Nodes().Update(w.t.Context(), gpuNode("a", "other"), metav1.UpdateOptions{})
			w.check(err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				w.createExporter("a")
				_, stop := w.lead()
				defer stop()
				w.wait(time.Minute)
				w.setSerial("a", "a-2")
				register(w)
				w.wait(time.Second)
				if got := w.labels("a"); len(got) > 0 {
					t.Errorf("labels of the Node before: %v", got)
				}
				w.wait(20 * time.Second)
				if got := w.labels("a")["gpu-0"]; got != "a-2" {
					t.Errorf("serial is %q, want the serial of the present board", got)
				}
			})
		})
	}
}
