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

// chain returns owners from the pod's controller to the root, each written as
// "apiVersion Kind".
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

// TestRoot: whatever it is that made a pod, the root of its owners is found.
func TestRoot(t *testing.T) {
	tests := []struct {
		name   string
		levels []string
	}{
		{"ReplicaSet", []string{"apps/v1 ReplicaSet"}},
		{"Deployment", []string{"apps/v1 ReplicaSet", "apps/v1 Deployment"}},
		{"CronJob", []string{"batch/v1 Job", "batch/v1 CronJob"}},
		{"JobSet", []string{"batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet"}},
		{"StatefulSet", []string{"apps/v1 StatefulSet"}},
		{"worker of a LeaderWorkerSet", []string{"apps/v1 StatefulSet", "v1 Pod", "apps/v1 StatefulSet", "leaderworkerset.x-k8s.io/v1 LeaderWorkerSet"}},
		{"PyTorchJob", []string{"kubeflow.org/v1 PyTorchJob"}},
		{"RayJob", []string{"ray.io/v1 RayCluster", "ray.io/v1 RayJob"}},
		{"static pod", []string{"v1 Node"}},
		{"root without a namespace", []string{"apps/v1 ReplicaSet", "apps/v1 Deployment", "example.com/v1 Fleet"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := chain(tt.levels...)
				w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
				w.lead()
				defer w.stop()
				direct, root := owners[0], owners[len(owners)-1]
				want := []string{podLine("p", direct.Kind, direct.Name, root.Kind, root.Name, string(root.UID))}
				for i, o := range owners {
					parent := ""
					if i+1 < len(owners) {
						parent = string(owners[i+1].UID)
					}
					want = append(want, workloadLine(o, parent))
				}
				slices.Sort(want)
				if diff := cmp.Diff(want, w.page("gpuledger_pod_info", "gpuledger_workload_info", "gpuledger_workload_walks_stopped")); diff != "" {
					t.Errorf("series (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func podLine(pod, ownerKind, ownerName, kind, name, uid string) string {
	return fmt.Sprintf(`gpuledger_pod_info{namespace="team-a",node="gpu-node-1",owner_kind=%q,owner_name=%q,pod=%q,pod_uid=%q,workload_kind=%q,workload_name=%q,workload_uid=%q} 1`,
		ownerKind, ownerName, pod, "uid-"+pod, kind, name, uid)
}

func workloadLine(o *metav1.PartialObjectMetadata, parent string) string {
	return fmt.Sprintf(`gpuledger_workload_info{kind=%q,name=%q,namespace=%q,parent_uid=%q,uid=%q} 1`, o.Kind, o.Name, o.Namespace, parent, o.UID)
}

// TestBarePod: a pod without a controller is its own workload, also where it is the
// owner of others, as the driver of a Spark job is.
func TestBarePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		driver := gpuPod("driver", "1", nil)
		driver.UID = "pod-driver"
		asOwner := object("v1", "Pod", "team-a", "driver", nil)
		w := newWorld(t, nil, driver, gpuPod("executor", "1", asOwner), asOwner)
		w.lead()
		defer w.stop()
		want := []string{
			strings.Replace(podLine("driver", "", "", "Pod", "driver", "pod-driver"), "uid-driver", "pod-driver", 1),
			podLine("executor", "Pod", "driver", "Pod", "driver", "pod-driver"),
			workloadLine(asOwner, ""),
		}
		if diff := cmp.Diff(want, w.page("gpuledger_pod_info", "gpuledger_workload_info")); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

// TestOneParent: a workload that two references lead to differently has one parent, the
// same at every scrape.
func TestOneParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "batch/v1 CronJob")
		misnamed := object("nobody.example/v1", "Job", "team-a", "level0", nil)
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]), gpuPod("q", "1", misnamed))...)
		w.lead()
		defer w.stop()
		want := []string{workloadLine(owners[1], ""), workloadLine(owners[0], string(owners[1].UID))}
		for range 50 {
			if diff := cmp.Diff(want, w.page("gpuledger_workload_info")); diff != "" {
				t.Fatalf("workloads (-want +got):\n%s", diff)
			}
		}
	})
}

// TestOtherOwners: an owner that is no controller is not followed.
func TestOtherOwners(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		deployment := object("apps/v1", "Deployment", "team-a", "d", nil)
		p := gpuPod("p", "1", deployment)
		p.OwnerReferences[0].Controller = nil
		w := newWorld(t, nil, p, deployment)
		w.lead()
		defer w.stop()
		want := []string{podLine("p", "", "", "Pod", "p", "uid-p")}
		if diff := cmp.Diff(want, w.page("gpuledger_pod_info")); diff != "" {
			t.Errorf("series (-want +got):\n%s", diff)
		}
	})
}

// TestStops: where a walk cannot go on, what is known stands, with the reason.
func TestStops(t *testing.T) {
	deployment := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
	replaced := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
	replaced[0].UID = "another"
	foreign := chain("nobody.example/v1 Gadget")
	long := chain(slices.Repeat([]string{"batch/v1 Job"}, 40)...)
	ring := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
	ring[1].OwnerReferences = ownedBy(ring[0])
	downwards := chain("example.com/v1 Fleet", "apps/v1 Deployment")
	tests := []struct {
		name       string
		controller *metav1.PartialObjectMetadata
		owners     []*metav1.PartialObjectMetadata
		forbid     string
		kind, root string
		want       string // kind and reason
	}{
		{"forbidden at once", deployment[0], deployment, "replicasets", "ReplicaSet", "level0", "ReplicaSet forbidden"},
		{"forbidden further up", deployment[0], deployment, "deployments", "Deployment", "level1", "Deployment forbidden"},
		{"gone", deployment[0], nil, "", "ReplicaSet", "level0", "ReplicaSet not_found"},
		{"another of that name", deployment[0], replaced, "", "ReplicaSet", "level0", "ReplicaSet not_found"},
		{"kind not served", foreign[0], foreign, "", "Gadget", "level0", "Gadget unknown_kind"},
		{"too deep", long[0], long, "", "Job", "level31", "Job too_deep"},
		{"ring", ring[0], ring, "", "Deployment", "level1", "Deployment cycle"},
		{"owned by what has a namespace", downwards[0], downwards, "", "Deployment", "level1", "Deployment invalid"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t, nil, objects(tt.owners, gpuPod("p", "1", tt.controller))...)
				w.refuse(tt.forbid, apierrors.NewForbidden(schema.GroupResource{Resource: tt.forbid}, "x", nil))
				w.lead()
				defer w.stop()
				got := w.page("gpuledger_pod_info")
				if len(got) != 1 || !strings.Contains(got[0], fmt.Sprintf(`workload_kind=%q,workload_name=%q`, tt.kind, tt.root)) {
					t.Errorf("pod is %v; want it to belong to %s %s", got, tt.kind, tt.root)
				}
				kind, why, _ := strings.Cut(tt.want, " ")
				want := []string{fmt.Sprintf(`gpuledger_workload_walks_stopped{kind=%q,reason=%q} 1`, kind, why)}
				if diff := cmp.Diff(want, w.page("gpuledger_workload_walks_stopped")); diff != "" {
					t.Errorf("stops (-want +got):\n%s", diff)
				}
			})
		})
	}
}

// refuse makes reads of a resource fail.
func (w *world) refuse(resource string, err error) {
	w.react(resource, func(clienttesting.Action) (bool, runtime.Object, error) { return resource != "", nil, err })
}

// react has reads of a resource answered by a function.
func (w *world) react(resource string, answer clienttesting.ReactionFunc) {
	w.owners.Lock()
	defer w.owners.Unlock()
	w.owners.PrependReactor("get", resource, answer)
}

// allow takes back the last refusal.
func (w *world) allow() {
	w.owners.Lock()
	defer w.owners.Unlock()
	w.owners.ReactionChain = w.owners.ReactionChain[1:]
}

// TestNoPathsFromNames: a name that would lead to another path of the API is not
// asked for.
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
					t.Errorf("stops are %v, want one, invalid", got)
				}
			})
		})
	}
}

// TestOwnersThatNameNothing: what cannot be a kind is not asked for, and of a long one
// no more is shown or logged than fits a label.
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
					t.Errorf("stops are %.200v, want one, invalid", got)
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

// TestReadsAreShared: a hundred pods of ten Jobs of one JobSet cost eleven reads, and
// none again within the hour.
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
			t.Errorf("%d reads after 90 minutes, want each owner read once more", got)
		}
	})
}

// TestForbiddenIsRemembered: a right that is missing costs one read, not one for each
// owner, and is noticed when it is given.
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
		if got := w.gets(); got > 8 { // as many as read at the same time
			t.Errorf("%d reads of Jobs that are forbidden", got)
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
			t.Errorf("stops after the right was given: %v", got)
		}
	})
}

// TestOwnersOfPodsThatAreGone: a controller without pods is not read again, so a cluster
// that runs thousands of Jobs an hour is not asked for each of them an hour later.
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

// TestServerErrors: an API server that does not answer is asked again, and no root is
// shown that it may not be.
func TestServerErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "batch/v1 CronJob")
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
		w.refuse("cronjobs", apierrors.NewInternalError(fmt.Errorf("etcd is away")))
		w.lead()
		defer w.stop()
		want := []string{"gpuledger_workload_walks_waiting 1"}
		if diff := cmp.Diff(want, w.page(info, "gpuledger_workload_info", "gpuledger_workload_walks_stopped", "gpuledger_workload_walks_waiting")); diff != "" {
			t.Errorf("without an answer (-want +got):\n%s", diff)
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

// TestWalksThatStopSooner: what a walk found before it stopped stands when the next one
// stops sooner.
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

// TestOwnerDeletedFirst: the root stays known after an owner on the way is deleted.
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

// TestKindInstalledLater: a kind that the server did not know is found when it does.
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
