package workloads_test

import (
	"strings"
	"testing"
	"testing/synctest"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type keys = map[string]string

// TestQueue checks the queue of a pod, from objects of the schedulers' repositories. The named files set
// or read these labels and annotations.
func TestQueue(t *testing.T) {
	tests := []struct {
		name                     string
		source                   string
		labels, annotations, job keys
		scheduler                string
		queue, cluster           string
	}{
		{
			name: "Kueue, admitted", source: "kubernetes-sigs/kueue ff69552e pkg/controller/jobframework/reconciler_test.go, wantPodSets",
			labels: keys{"kueue.x-k8s.io/cluster-queue-name": "default-cq", "kueue.x-k8s.io/local-queue-name": "test-lq", "kueue.x-k8s.io/podset": "main"},
			queue:  "test-lq", cluster: "default-cq",
		},
		{
			name: "Kueue, a job without labels of its pods", source: "kubernetes-sigs/kueue ff69552e site/static/examples/jobs/sample-job.yaml; pkg/features/kube_features.go: AssignQueueLabelsForPods since 0.17",
			job: keys{"kueue.x-k8s.io/queue-name": "user-queue"}, queue: "user-queue",
		},
		{
			name: "Kueue, a pod that was moved to another queue before it was admitted", source: "kubernetes-sigs/kueue ff69552e pkg/controller/jobframework/reconciler.go, assignQueueLabels",
			labels: keys{"kueue.x-k8s.io/queue-name": "user-queue", "kueue.x-k8s.io/local-queue-name": "test-lq", "kueue.x-k8s.io/cluster-queue-name": "default-cq"},
			queue:  "test-lq", cluster: "default-cq",
		},
		{
			name: "Kueue, a cluster queue with an invalid label", source: "kubernetes-sigs/kueue ff69552e pkg/controller/jobframework/reconciler.go, assignQueueLabels",
			labels: keys{"kueue.x-k8s.io/local-queue-name": "test-lq"}, queue: "test-lq",
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
				w.wantQueue(tt.queue, tt.cluster)
			})
		})
	}
}

// wantQueue checks the queue of the only pod on the page.
func (w *world) wantQueue(queue, cluster string) {
	w.t.Helper()
	got := w.page("gpuledger_pod_info")
	if len(got) != 1 || !strings.Contains(got[0], `,queue="`+queue+`"`) || !strings.Contains(got[0], `cluster_queue="`+cluster+`"`) {
		w.t.Errorf("pod is %v; want queue %q, cluster queue %q", got, queue, cluster)
	}
}

// TestQueueOfChain checks that the nearest owner with a queue counts, and that a queue that the owner
// gets later replaces none.
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
