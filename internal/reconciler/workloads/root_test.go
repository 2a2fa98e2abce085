package workloads_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

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
	return fmt.Sprintf(`gpuledger_pod_info{cluster_queue="",namespace="team-a",node="gpu-node-1",owner_kind=%q,owner_name=%q,pod=%q,pod_uid=%q,queue="",workload_kind=%q,workload_name=%q,workload_uid=%q} 1`,
		ownerKind, ownerName, pod, "uid-"+pod, kind, name, uid)
}

func workloadLine(o *metav1.PartialObjectMetadata, parent string) string {
	return fmt.Sprintf(`gpuledger_workload_info{kind=%q,name=%q,namespace=%q,parent_uid=%q,uid=%q} 1`, o.Kind, o.Name, o.Namespace, parent, o.UID)
}

// TestBarePod checks a pod that has no controller and owns other pods, such as the driver of a Spark job.
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

// TestOneParent checks that every scrape shows the same parent of a workload, even if two owner chains contain
// different parents.
func TestOneParent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "batch/v1 CronJob")
		misnamed := object("unknown.example/v1", "Job", "team-a", "level0", nil)
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

// TestStops checks that the page contains the known owners, and the reason why the chain ends before its root.
func TestStops(t *testing.T) {
	deployment := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
	replaced := chain("apps/v1 ReplicaSet", "apps/v1 Deployment")
	replaced[0].UID = "another"
	foreign := chain("unknown.example/v1 Gadget")
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
		want       string // expected kind of the last owner, and the reason
	}{
		{"forbidden at the first level", deployment[0], deployment, "replicasets", "ReplicaSet", "level0", "ReplicaSet forbidden"},
		{"forbidden at a higher level", deployment[0], deployment, "deployments", "Deployment", "level1", "Deployment forbidden"},
		{"gone", deployment[0], nil, "", "ReplicaSet", "level0", "ReplicaSet not_found"},
		{"another object with the same name", deployment[0], replaced, "", "ReplicaSet", "level0", "ReplicaSet not_found"},
		{"kind not served", foreign[0], foreign, "", "Gadget", "level0", "Gadget unknown_kind"},
		{"too deep", long[0], long, "", "Job", "level31", "Job too_deep"},
		{"ring", ring[0], ring, "", "Deployment", "level1", "Deployment cycle"},
		{"a cluster-scoped object with a namespaced owner", downwards[0], downwards, "", "Deployment", "level1", "Deployment invalid"},
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
					t.Errorf("pod is %v, want the workload %s %s", got, tt.kind, tt.root)
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
