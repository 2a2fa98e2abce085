package workloads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
)

// chain returns the owners of a pod, from its controller to the root. Each argument has the form "apiVersion Kind".
func chain(levels ...string) []*metav1.PartialObjectMetadata {
	var above *metav1.PartialObjectMetadata
	var owners []*metav1.PartialObjectMetadata
	for i, level := range slices.Backward(levels) {
		apiVersion, kind, _ := strings.Cut(level, " ")
		namespace := "team-a"
		if kind == "Node" || kind == "Fleet" {
			namespace = ""
		}
		above = object(apiVersion, kind, namespace, fmt.Sprintf("level%d", i), above)
		owners = append(owners, above)
	}
	slices.Reverse(owners)
	return owners
}

func objects(owners []*metav1.PartialObjectMetadata, more ...runtime.Object) []runtime.Object {
	for _, o := range owners {
		more = append(more, o)
	}
	return more
}

func (w *world) refuse(resource string, err error) {
	w.react(resource, func(clienttesting.Action) (bool, runtime.Object, error) { return resource != "", nil, err })
}

func (w *world) react(resource string, answer clienttesting.ReactionFunc) {
	w.owners.Lock()
	defer w.owners.Unlock()
	w.owners.PrependReactor("get", resource, answer)
}

// allow undoes the last call of refuse.
func (w *world) allow() {
	w.owners.Lock()
	defer w.owners.Unlock()
	w.owners.ReactionChain = w.owners.ReactionChain[1:]
}

func TestNoPathsFromNames(t *testing.T) {
	for _, name := range []string{"../../secrets/s", "a/b", "..", ".", "a%2fb", ""} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, gpuPod("p", "1", object("apps/v1", "ReplicaSet", "team-a", name, nil)))
				w.lead()
				defer w.stop()
				if got := w.gets(); got != 0 {
					t.Errorf("%d reads of an owner named %q", got, name)
				}
				if got := w.page("gpuledger_workload_walks_stopped"); len(got) != 1 || !strings.Contains(got[0], "invalid") {
					t.Errorf("stops are %v, want one with the reason invalid", got)
				}
			})
		})
	}
}

// TestOwnersThatNameNothing checks that the reconciler makes no request for an invalid kind. A long kind must be
// truncated to the length of a label value.
func TestOwnersThatNameNothing(t *testing.T) {
	tests := []struct{ name, apiVersion, kind, owner string }{
		{"long kind", "apps/v1", strings.Repeat("K", 1<<20), "x"},
		{"long group", strings.Repeat("g", 1<<20) + "/v1", "Job", "x"},
		{"long version", "apps/" + strings.Repeat("v", 1<<20), "Job", "x"},
		{"long name", "apps/v1", "ReplicaSet", strings.Repeat("n", 1<<20)},
		{"kind with a blank", "apps/v1", "Replica Set", "x"},
		{"kind that is a path", "v1", "../Secret", "x"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, gpuPod("p", "1", object(tt.apiVersion, tt.kind, "team-a", tt.owner, nil)))
				w.lead()
				defer w.stop()
				if got := w.page("gpuledger_workload_walks_stopped"); len(got) != 1 || !strings.Contains(got[0], "invalid") {
					t.Errorf("stops are %.200v, want one with the reason invalid", got)
				}
				if reads, logged := w.gets(), w.log.Len(); reads > 0 || logged > 0 {
					t.Errorf("%d reads and %d bytes of log, want none", reads, logged)
				}
				if got := len(strings.Join(w.page(), "")) + w.events.Len(); got > 10_000 {
					t.Errorf("page and events have %d bytes", got)
				}
			})
		})
	}
}

func TestReadsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set := object("jobset.x-k8s.io/v1alpha2", "JobSet", "team-a", "train", nil)
		all := []runtime.Object{set}
		for i := range 100 {
			job := object("batch/v1", "Job", "team-a", fmt.Sprintf("job-%d", i/10), set)
			if i%10 == 0 {
				all = append(all, job)
			}
			all = append(all, gpuPod(fmt.Sprintf("pod-%d", i), "1", job))
		}
		w := newWorld(t, nil, all...)
		w.lead()
		defer w.stop()
		if got := w.gets(); got != 11 {
			t.Errorf("%d reads, want 11", got)
		}
		if got := len(w.page("gpuledger_pod_info")); got != 100 {
			t.Errorf("%d pods, want 100", got)
		}
		time.Sleep(50 * time.Minute)
		synctest.Wait()
		if got := w.gets(); got != 11 {
			t.Errorf("%d reads after 50 minutes, want no more than 11", got)
		}
		time.Sleep(40 * time.Minute)
		synctest.Wait()
		if got := w.gets(); got != 22 {
			t.Errorf("%d reads after 90 minutes, want each owner read again once", got)
		}
	})
}

// TestForbiddenIsRemembered checks that a missing permission does not cause a request for each owner. If the permission
// is granted later, the owners must be read.
func TestForbiddenIsRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []runtime.Object
		for i := range 50 {
			job := object("batch/v1", "Job", "team-a", fmt.Sprintf("job-%d", i), nil)
			all = append(all, job, gpuPod(fmt.Sprintf("pod-%d", i), "1", job))
		}
		w := newWorld(t, nil, all...)
		w.refuse("jobs", apierrors.NewForbidden(schema.GroupResource{Resource: "jobs"}, "x", nil))
		w.lead()
		defer w.stop()
		if got := w.gets(); got > 8 { // each concurrent worker may make one request
			t.Errorf("%d reads of Jobs, which are forbidden", got)
		}
		want := []string{`gpuledger_workload_walks_stopped{kind="Job",reason="forbidden"} 50`}
		if diff := cmp.Diff(want, w.page("gpuledger_workload_walks_stopped")); diff != "" {
			t.Errorf("stops (-want +got):\n%s", diff)
		}
		if got := strings.Count(w.log.String(), "level=WARN"); got != 1 {
			t.Errorf("%d warnings, want 1:\n%s", got, w.log)
		}
		w.allow()
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if got := w.page("gpuledger_workload_walks_stopped"); len(got) != 0 {
			t.Errorf("stops after the permission was granted: %v", got)
		}
	})
}

// TestOwnersOfPodsThatAreGone checks that owners without pods are not read again. Otherwise, in a cluster with
// thousands of Jobs per hour, every Job would be read again an hour later.
func TestOwnersOfPodsThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		job := object("batch/v1", "Job", "team-a", "job", nil)
		w := newWorld(t, []string{"-retention=5m"}, job, gpuPod("p", "1", job))
		w.lead()
		defer w.stop()
		w.delete("pods", "p")
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if got := w.gets(); got != 1 {
			t.Errorf("the Job was read %d times, want once", got)
		}
	})
}

// TestServerErrors checks that the reconciler repeats a request after an error of the API server. Until the request
// succeeds, the page must not show a root that may be wrong.
func TestServerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "batch/v1 CronJob")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
		w.refuse("cronjobs", apierrors.NewInternalError(fmt.Errorf("etcd is away")))
		w.lead()
		defer w.stop()
		want := []string{"gpuledger_workload_walks_waiting 1"}
		if diff := cmp.Diff(want, w.page(info, "gpuledger_workload_info", "gpuledger_workload_walks_stopped", "gpuledger_workload_walks_waiting")); diff != "" {
			t.Errorf("without a response (-want +got):\n%s", diff)
		}
		w.allow()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		want = []string{podLine("p", "Job", "level0", "CronJob", "level1", "cronjob-level1"), "gpuledger_workload_walks_waiting 0"}
		if diff := cmp.Diff(want, w.page(info, "gpuledger_workload_walks_stopped", "gpuledger_workload_walks_waiting")); diff != "" {
			t.Errorf("after the server recovered (-want +got):\n%s", diff)
		}
	})
}

// TestWalksThatStopSooner checks that the known owners remain on the page if they cannot be read again.
func TestWalksThatStopSooner(t *testing.T) {
	tests := []struct {
		name string
		err  error
	}{
		{"no answer", apierrors.NewInternalError(fmt.Errorf("etcd is away"))},
		{"owner deleted", apierrors.NewNotFound(schema.GroupResource{}, "x")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := chain("batch/v1 Job", "batch/v1 CronJob")
				w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
				w.refuse("cronjobs", apierrors.NewForbidden(schema.GroupResource{Resource: "cronjobs"}, "x", nil))
				w.lead()
				defer w.stop()
				before := w.page(info, "gpuledger_workload_info")
				w.refuse("*", tt.err)
				reads := w.gets()
				time.Sleep(3 * time.Hour)
				synctest.Wait()
				if w.gets() == reads {
					t.Error("nothing was read again")
				}
				if diff := cmp.Diff(before, w.page(info, "gpuledger_workload_info")); diff != "" {
					t.Errorf("series (-before +after):\n%s", diff)
				}
			})
		})
	}
}

func TestOwnerDeletedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
		w.lead()
		defer w.stop()
		before := w.page("gpuledger_pod_info")
		w.refuse("*", apierrors.NewNotFound(schema.GroupResource{}, "x"))
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if diff := cmp.Diff(before, w.page("gpuledger_pod_info")); diff != "" {
			t.Errorf("series (-before +after):\n%s", diff)
		}
	})
}

func TestKindInstalledLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("workload.example/v1 TrainJob")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
		w.lead()
		defer w.stop()
		want := []string{`gpuledger_workload_walks_stopped{kind="TrainJob",reason="unknown_kind"} 1`}
		if diff := cmp.Diff(want, w.page("gpuledger_workload_walks_stopped")); diff != "" {
			t.Errorf("stops (-want +got):\n%s", diff)
		}
		w.serve("workload.example/v1", "TrainJob", "trainjobs", true)
		time.Sleep(15 * time.Minute)
		synctest.Wait()
		if got := w.page("gpuledger_workload_walks_stopped"); len(got) != 0 {
			t.Errorf("stops after the kind was installed: %v", got)
		}
	})
}
