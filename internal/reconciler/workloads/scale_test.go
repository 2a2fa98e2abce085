package workloads_test

import (
	"flag"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// These flags set the size of TestManyPods.
var (
	size    = flag.Int("size", 200, "number of pods in TestManyPods")
	scrapes = flag.Int("scrapes", 5, "number of scrapes in each part of TestManyPods")
)

// TestManyPods counts the requests and the lines of the page for many pods. Each owner must be read only once.
// TestGrowth in package reconciler runs this test with two sizes and compares how often each statement is executed.
func TestManyPods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods, all := manyPods(*size)
		w := newWorld(t, nil, append(all, localQueue(t, "v1beta2", "other", "shared"))...)
		w.serve("kueue.x-k8s.io/v1beta2", "LocalQueue", "localqueues", true)
		w.lead()
		defer w.stop()
		jobs := (*size + podsOfJob - 1) / podsOfJob
		w.scrapes(*scrapes, *size)
		if got := w.gets(); got != jobs {
			t.Errorf("%d reads of owners, want one read for each of %d jobs", got, jobs)
		}

		for _, p := range pods {
			p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.Now()}}
			if _, err := w.kube.Pods(p.Namespace).UpdateStatus(t.Context(), p, metav1.UpdateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait() // the fake client's watch buffers at most 100 events
		}
		w.scrapes(*scrapes, *size)
		queues := w.others.Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "localqueues"})
		for i := range namespaces(*size) {
			q := localQueue(t, "v1beta2", fmt.Sprintf("team-%d", i), "shared")
			if _, err := queues.Namespace(q.GetNamespace()).Create(t.Context(), q, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		w.scrapes(*scrapes, *size)
		for _, p := range pods {
			if err := w.kube.Pods(p.Namespace).Delete(t.Context(), p.Name, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		<-time.After(10 * time.Minute)
		w.scrapes(1, 0)
		if got := w.gets(); got != jobs {
			t.Errorf("%d reads of owners at the end, want %d", got, jobs)
		}
	})
}

func namespaces(pods int) int { return pods/20 + 1 }

func manyPods(n int) (pods []*corev1.Pod, all []runtime.Object) {
	for i := range n {
		job := object("batch/v1", "Job", fmt.Sprintf("team-%d", i/podsOfJob%namespaces(n)), fmt.Sprintf("training-%d", i/podsOfJob), nil)
		p := gpuPod(fmt.Sprintf("%s-%d", job.Name, i%podsOfJob), "8", job)
		p.Namespace, p.Labels = job.Namespace, keys{"kueue.x-k8s.io/queue-name": "user-queue"}
		pods, all = append(pods, p), append(all, p)
		if i%podsOfJob == 0 {
			all = append(all, job)
		}
	}
	return pods, all
}

func (w *world) scrapes(times, pods int) {
	w.t.Helper()
	for range times {
		<-time.After(15 * time.Second)
		synctest.Wait()
		if got := len(w.page(info)); got != pods {
			w.t.Fatalf("%d pods on the page, want %d", got, pods)
		}
	}
}
