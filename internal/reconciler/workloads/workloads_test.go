package workloads_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/gpuledger/gpuledger/internal/reconciler/watch"
	"github.com/gpuledger/gpuledger/internal/reconciler/workloads"
)

const info = "gpuledger_pod_info"

func TestPendingPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gpuPod("p", "1", nil)
		p.Spec.NodeName, p.Status.Phase = "", corev1.PodPending
		w := newWorld(t, nil, p)
		w.lead()
		defer w.stop()
		want := podLine("p", "", "", "Pod", "p", "uid-p")
		if diff := cmp.Diff([]string{strings.Replace(want, "gpu-node-1", "", 1)}, w.page(info)); diff != "" {
			t.Errorf("pending (-want +got):\n%s", diff)
		}
		w.update("pods", next(gpuPod("p", "1", nil)))
		if diff := cmp.Diff([]string{want}, w.page(info)); diff != "" {
			t.Errorf("scheduled (-want +got):\n%s", diff)
		}
	})
}

func next(p *corev1.Pod) *corev1.Pod {
	var version int
	_, _ = fmt.Sscan(p.ResourceVersion, &version)
	p = p.DeepCopy()
	p.ResourceVersion = fmt.Sprint(version + 1)
	return p
}

func ended(p *corev1.Pod, phase corev1.PodPhase, exitCode int32, at time.Time) *corev1.Pod {
	p = next(p)
	p.Status.Phase = phase
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "main", State: corev1.ContainerState{
		Terminated: &corev1.ContainerStateTerminated{ExitCode: exitCode, Reason: "Error", FinishedAt: metav1.NewTime(at)},
	}}}
	return p
}

func TestRetention(t *testing.T) {
	tests := []struct {
		name string
		end  func(w *world, p *corev1.Pod)
	}{
		{"finished", func(w *world, p *corev1.Pod) { w.update("pods", ended(p, corev1.PodSucceeded, 0, time.Now())) }},
		{"finished, according to a slow clock", func(w *world, p *corev1.Pod) {
			w.update("pods", ended(p, corev1.PodFailed, 1, time.Now().Add(-time.Hour)))
		}},
		{"deleted", func(w *world, _ *corev1.Pod) { w.delete("pods", "p") }},
		{"both", func(w *world, p *corev1.Pod) {
			w.update("pods", ended(p, corev1.PodSucceeded, 0, time.Now()))
			time.Sleep(time.Minute)
			w.delete("pods", "p")
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := chain("batch/v1 Job")
				p := gpuPod("p", "1", owners[0])
				w := newWorld(t, []string{"-retention=5m"}, objects(owners, p)...)
				w.lead()
				defer w.stop()
				before := w.page(info, requests, "gpuledger_workload_info")
				began := time.Now()
				tt.end(w, p)
				time.Sleep(5*time.Minute - time.Second - time.Since(began))
				synctest.Wait()
				if diff := cmp.Diff(before, w.page(info, requests, "gpuledger_workload_info")); diff != "" {
					t.Errorf("within the retention (-want +got):\n%s", diff)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := w.page(info, requests, "gpuledger_workload_info"); len(got) > 0 {
					t.Errorf("after the retention: %v", got)
				}
			})
		})
	}
}

func TestRecreatedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, gpuPod("p", "1", nil))
		w.lead()
		defer w.stop()
		w.delete("pods", "p")
		again := gpuPod("p", "1", nil)
		again.UID = "uid-again"
		w.create("pods", again)
		if got := w.page(info); len(got) != 2 {
			t.Errorf("pods are %v, want both", got)
		}
		time.Sleep(6 * time.Minute)
		synctest.Wait()
		if got := w.page(info); len(got) != 1 || !strings.Contains(got[0], "uid-again") {
			t.Errorf("after the retention pods are %v, want the new one", got)
		}
	})
}

// TestMissedDeletion checks that a pod's series end even if the watch misses the deletion of the pod and the creation
// of another pod with the same name.
func TestMissedDeletion(t *testing.T) {
	anew := next(gpuPod("p", "1", nil))
	anew.UID = "uid-anew"
	without := next(gpuPod("p", "0", nil))
	without.UID = "uid-anew"
	for name, tt := range map[string]struct {
		pod   *corev1.Pod
		shown int
	}{"with a GPU": {anew, 1}, "without": {without, 0}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, gpuPod("p", "1", nil))
				w.lead()
				defer w.stop()
				w.update("pods", tt.pod)
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if got := w.page(info); len(got) != tt.shown {
					t.Errorf("a day later: %q", got)
				}
				w.delete("pods", "p")
				time.Sleep(24 * time.Hour)
				synctest.Wait()
				if got := w.page(info); len(got) != 0 {
					t.Errorf("a day after the other pod was also deleted: %q", got)
				}
			})
		})
	}
}

// TestHandOver checks that a replica has series only while it is the leader. When it becomes the leader again, it
// creates the series again from the list of pods.
func TestHandOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet")
		done := ended(gpuPod("done", "1", owners[0]), corev1.PodSucceeded, 0, time.Now().Add(-time.Minute))
		longDone := ended(gpuPod("long-done", "1", owners[0]), corev1.PodSucceeded, 0, time.Now().Add(-time.Hour))
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]), done, longDone)...)
		if got := w.page(info); len(got) > 0 {
			t.Errorf("before leading: %v", got)
		}
		w.lead()
		first := w.page(info, requests, "gpuledger_workload_info")
		if len(first) != 6 { // info series of two pods, request series of two pods, and series of two owners
			t.Errorf("series are %v", first)
		}
		w.stop()
		if got := w.page(info); len(got) > 0 {
			t.Errorf("after leading: %v", got)
		}
		w.lead()
		defer w.stop()
		if diff := cmp.Diff(first, w.page(info, requests, "gpuledger_workload_info")); diff != "" {
			t.Errorf("second term (-first +second):\n%s", diff)
		}
	})
}

func TestAllowedLabels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := gpuPod("p", "1", nil)
		p.Labels = map[string]string{"app.kubernetes.io/name": "llama", "secret": "x"}
		p.Annotations = map[string]string{"example.com/cost-center": strings.Repeat("é", 200), "other": "x"}
		w := newWorld(t, []string{"-pod-labels=app.kubernetes.io/name,team", "-pod-annotations=example.com/cost-center"}, p, gpuPod("q", "1", nil))
		w.lead()
		defer w.stop()
		want := []string{
			`gpuledger_pod_annotations{annotation_example_com_cost_center="` + strings.Repeat("é", 128) + `",namespace="team-a",pod="p",pod_uid="uid-p"} 1`,
			`gpuledger_pod_labels{label_app_kubernetes_io_name="llama",label_team="",namespace="team-a",pod="p",pod_uid="uid-p"} 1`,
		}
		if diff := cmp.Diff(want, w.page("gpuledger_pod_annotations", "gpuledger_pod_labels")); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

func TestAdopted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", nil))...)
		w.lead()
		defer w.stop()
		w.update("pods", next(gpuPod("p", "1", owners[0])))
		want := []string{podLine("p", "ReplicaSet", "level0", "Deployment", "level1", "deployment-level1")}
		if diff := cmp.Diff(want, w.page(info)); diff != "" {
			t.Errorf("adopted (-want +got):\n%s", diff)
		}
		orphan := next(next(gpuPod("p", "1", nil)))
		w.update("pods", orphan)
		self := object("v1", "Pod", "team-a", "p", nil)
		self.UID = "uid-p"
		want = []string{podLine("p", "", "", "Pod", "p", "uid-p"), workloadLine(self, "")}
		if diff := cmp.Diff(want, w.page(info, "gpuledger_workload_info")); diff != "" {
			t.Errorf("orphaned (-want +got):\n%s", diff)
		}
	})
}

// TestNoSeriesBeforeOwner checks that a pod has no series before its owners are known. Earlier series would have other
// labels.
func TestNoSeriesBeforeOwner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]), gpuPod("bare", "1", nil))...)
		answer := make(chan struct{})
		w.stall("jobs", answer)
		w.lead()
		defer w.stop()
		if got := w.page(info); len(got) != 1 || !strings.Contains(got[0], `pod="bare"`) {
			t.Errorf("pods are %v, want the bare one", got)
		}
		if got := w.page("gpuledger_workload_walks_waiting"); !slices.Equal(got, []string{"gpuledger_workload_walks_waiting 1"}) {
			t.Errorf("waiting: %v", got)
		}
		close(answer)
		synctest.Wait()
		if got := w.page(info); len(got) != 2 {
			t.Errorf("pods are %v, want both", got)
		}
	})
}

func (w *world) stall(resource string, until <-chan struct{}) {
	w.react(resource, func(clienttesting.Action) (bool, runtime.Object, error) { <-until; return false, nil, nil })
}

func TestStoppedInformer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil)
		informer := watch.Informer(w.kube.Pods(metav1.NamespaceAll), &corev1.Pod{})
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		informer.RunWithContext(ctx)
		c := workloads.Cluster{Watches: w.kube, Server: w.kube, Metadata: w.owners, Dynamic: w.others, Pods: informer, Failures: watch.New(w.logger)}
		if err := w.Run(t.Context(), c); err == nil {
			t.Error("a term with a stopped informer ended without an error")
		}
		if err := w.Run(ctx, c); err != nil {
			t.Errorf("a term with a cancelled context ended with %v", err)
		}
	})
}
