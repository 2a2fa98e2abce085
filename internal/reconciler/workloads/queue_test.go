package workloads_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"
)

type keys = map[string]string

// TestQueue checks the queues of pods from the schedulers' repositories. source lists the files that set or read the
// pods' labels and annotations.
func TestQueue(t *testing.T) {
	tests := []struct {
		name                     string
		source                   string
		labels, annotations, job keys
		scheduler, queue         string
	}{
		{
			name: "Kueue, admitted", source: "kubernetes-sigs/kueue ff69552e pkg/controller/jobframework/reconciler_test.go, wantPodSets",
			labels: keys{"kueue.x-k8s.io/cluster-queue-name": "default-cq", "kueue.x-k8s.io/local-queue-name": "test-lq", "kueue.x-k8s.io/podset": "main"},
			queue:  "test-lq",
		},
		{
			name: "Kueue, a job with pods that have no labels", source: "kubernetes-sigs/kueue ff69552e site/static/examples/jobs/sample-job.yaml; pkg/features/kube_features.go: AssignQueueLabelsForPods since 0.17",
			job: keys{"kueue.x-k8s.io/queue-name": "user-queue"}, queue: "user-queue",
		},
		{
			name: "Kueue, a pod that was moved to another queue before it was admitted", source: "kubernetes-sigs/kueue ff69552e pkg/controller/jobframework/reconciler.go, assignQueueLabels",
			labels: keys{"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/local-queue-name": "test-lq", "kueue.x-k8s.io/cluster-queue-name": "default-cq"},
			queue:  "test-lq",
		},
		{
			name: "Volcano job", source: "volcano-sh/volcano ed72c7c8 pkg/controllers/job/job_controller_util.go: spec.queue of the job",
			labels: keys{"volcano.sh/queue-name": "test", "volcano.sh/job-name": "j"}, annotations: keys{"volcano.sh/queue-name": "test", "scheduling.k8s.io/group-name": "j-uid"},
			scheduler: "volcano", queue: "test",
		},
		{
			name: "Volcano, a Deployment", source: "volcano-sh/volcano ed72c7c8 example/deployment/deployment.yaml, the template; pkg/controllers/podgroup/pg_controller_handler.go",
			annotations: keys{"scheduling.volcano.sh/queue-name": "test"}, scheduler: "volcano", queue: "test",
		},
		{
			name: "YuniKorn, canonical label and annotation", source: "apache/yunikorn-k8shim 23b6b47f pkg/common/utils/utils_test.go, TestGetQueueNameFromPod",
			labels: keys{"yunikorn.apache.org/queue": "sandboxCanonicalLabel"}, annotations: keys{"yunikorn.apache.org/queue": "sandboxAnnotation"},
			scheduler: "yunikorn", queue: "sandboxCanonicalLabel",
		},
		{
			name: "YuniKorn, annotation and legacy label", source: "apache/yunikorn-k8shim 23b6b47f pkg/common/utils/utils_test.go, TestGetQueueNameFromPod",
			labels: keys{"queue": "sandboxLabel"}, annotations: keys{"yunikorn.apache.org/queue": "sandboxAnnotation"},
			scheduler: "yunikorn", queue: "sandboxAnnotation",
		},
		{
			name: "YuniKorn, legacy label", source: "apache/yunikorn-k8shim 23b6b47f pkg/common/utils/utils_test.go, TestGetQueueNameFromPod",
			labels: keys{"queue": "sandboxLabel"}, scheduler: "yunikorn", queue: "sandboxLabel",
		},
		{name: "another program's label", labels: keys{"queue": "mail"}, scheduler: "default-scheduler"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Log(tt.source)
			synctest.Test(t, func(t *testing.T) {
				job := object("batch/v1", "Job", "team-a", "j", nil)
				job.Labels = tt.job
				p := gpuPod("p", "1", job)
				p.Labels, p.Annotations, p.Spec.SchedulerName = tt.labels, tt.annotations, tt.scheduler
				w := newWorld(t, nil, objects([]*metav1.PartialObjectMetadata{job}, p)...)
				w.lead()
				defer w.stop()
				w.wantQueue(tt.queue, "")
			})
		})
	}
}

func (w *world) wantQueue(queue, cluster string) {
	w.t.Helper()
	got := w.page("gpuledger_pod_info")
	if len(got) != 1 || !strings.Contains(got[0], `,queue="`+queue+`"`) || !strings.Contains(got[0], `cluster_queue="`+cluster+`"`) {
		w.t.Errorf("pod is %v; want queue %q, cluster queue %q", got, queue, cluster)
	}
}

func TestQueueOfChain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		owners := chain("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet")
		owners[1].Labels = keys{"kueue.x-k8s.io/queue-name": "user-queue"}
		w := newWorld(t, nil, objects(owners, gpuPod("p", "1", owners[0]))...)
		w.lead()
		defer w.stop()
		w.wantQueue("user-queue", "")
	})
}

// localQueue returns the LocalQueue in site/static/examples/admin/single-clusterqueue-setup.yaml (kubernetes-sigs/kueue
// ff69552e) with another namespace and ClusterQueue.
func localQueue(t *testing.T, version, namespace, cluster string) *unstructured.Unstructured {
	t.Helper()
	text := `apiVersion: kueue.x-k8s.io/` + version + `
kind: LocalQueue
metadata:
  namespace: "` + namespace + `"
  name: "user-queue"
spec:
  clusterQueue: "` + cluster + `"
`
	var q unstructured.Unstructured
	if err := yaml.Unmarshal([]byte(text), &q.Object); err != nil {
		t.Fatal(err)
	}
	return &q
}

func kueuePod(cluster string) *corev1.Pod {
	p := gpuPod("p", "1", nil)
	p.Labels = keys{"kueue.x-k8s.io/local-queue-name": "user-queue", "kueue.x-k8s.io/cluster-queue-name": cluster}
	return p
}

// TestClusterQueue checks that a pod gets the ClusterQueue of its LocalQueue. The pod's own label must be used only if
// RBAC does not permit listing LocalQueues.
func TestClusterQueue(t *testing.T) {
	tests := []struct {
		name      string
		version   string // served version of LocalQueue; empty if Kueue is not installed
		forbidden bool
		queues    []string // namespace and ClusterQueue of each pod
		label     string
		want      string
	}{
		{"admitted", "v1beta2", false, []string{"team-a cluster-queue"}, "cluster-queue", "cluster-queue"},
		{"before 0.17, without the label", "v1beta1", false, []string{"team-a cluster-queue"}, "", "cluster-queue"},
		{"forged", "v1beta2", false, []string{"team-a cluster-queue", "team-b rich-queue"}, "rich-queue", "cluster-queue"},
		{"a queue of another namespace", "v1beta2", false, []string{"team-b rich-queue"}, "rich-queue", ""},
		{"Kueue is not installed", "", false, nil, "rich-queue", ""},
		{"forbidden", "v1beta2", true, []string{"team-a cluster-queue"}, "cluster-queue", "cluster-queue"},
		{"forbidden, without the label", "v1beta2", true, []string{"team-a cluster-queue"}, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				objects := []runtime.Object{kueuePod(tt.label)}
				for _, q := range tt.queues {
					namespace, cluster, _ := strings.Cut(q, " ")
					objects = append(objects, localQueue(t, tt.version, namespace, cluster))
				}
				w := newWorld(t, nil, objects...)
				if tt.version != "" {
					w.serve("kueue.x-k8s.io/"+tt.version, "LocalQueue", "localqueues", true)
				}
				if tt.forbidden {
					w.others.PrependReactor("list", "localqueues", func(clienttesting.Action) (bool, runtime.Object, error) {
						return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "localqueues"}, "", nil)
					})
				}
				w.lead()
				defer w.stop()
				w.wantQueue("user-queue", tt.want)
			})
		})
	}
}

// TestLaterLocalQueue checks that pods keep the ClusterQueue of a deleted LocalQueue, until a LocalQueue with the same
// name is created.
func TestLaterLocalQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, nil, kueuePod(""), localQueue(t, "v1beta2", "team-b", "rich-queue"))
		w.serve("kueue.x-k8s.io/v1beta2", "LocalQueue", "localqueues", true)
		w.lead()
		defer w.stop()
		w.wantQueue("user-queue", "")
		queues := w.others.Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta2", Resource: "localqueues"}).Namespace("team-a")
		for _, cluster := range []string{"cluster-queue", "other-queue"} {
			if _, err := queues.Create(t.Context(), localQueue(t, "v1beta2", "team-a", cluster), metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.wantQueue("user-queue", cluster)
			if err := queues.Delete(t.Context(), "user-queue", metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			w.wantQueue("user-queue", cluster)
		}
	})
}

func TestOwnerLabels(t *testing.T) {
	const of = `,namespace="team-a",pod="p",pod_uid="uid-p"} 1`
	own, job, set := keys{"team": "blue"}, keys{"team": "red", "cost-center": "4711"}, keys{"cost-center": "1", "project": "moon", "secret": "x"}
	tests := []struct {
		name     string
		args     []string
		pod, job keys
		want     []string
	}{
		{"from owners", []string{"--pod-labels-of-owners"}, own, job, []string{`gpuledger_pod_labels{label_cost_center="4711",label_project="moon",label_team="blue"` + of}},
		{"of the pod", nil, own, job, []string{`gpuledger_pod_labels{label_cost_center="",label_project="",label_team="blue"` + of}},
		{"only of an owner", []string{"--pod-labels-of-owners"}, nil, nil, []string{`gpuledger_pod_labels{label_cost_center="1",label_project="moon",label_team=""` + of}},
		{"none", nil, nil, job, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				owners := chain("batch/v1 Job", "jobset.x-k8s.io/v1alpha2 JobSet")
				owners[0].Labels, owners[1].Labels = tt.job, set
				p := gpuPod("p", "1", owners[0])
				p.Labels = tt.pod
				w := newWorld(t, append(tt.args, "--pod-labels=team,cost-center,project"), objects(owners, p)...)
				w.lead()
				defer w.stop()
				if diff := cmp.Diff(tt.want, w.page("gpuledger_pod_labels")); diff != "" {
					t.Errorf("labels (-want +got):\n%s", diff)
				}
			})
		})
	}
}
