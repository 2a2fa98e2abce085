//go:build e2e

package queries_test

import (
	"fmt"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/gpuledger/gpuledger/test/exposition"
)

const team = "research"

// life contains the objects in the cluster. A CronJob's Job with two pods, each with eight GPUs, runs for two hours. A
// Deployment's pod with two GPUs is killed once. A pod with four GPUs fits on no node.
type life struct {
	*watched
	t     *testing.T
	began time.Time // a full minute

	cron, job, deployment, replicas metav1.Object
	pods                            map[string]*corev1.Pod
}

// These are the minutes of the events.
const (
	atStart    = 10  // all pods run, except the pending pod
	atKill     = 70  // the Deployment's pod is killed and runs again
	atEnd      = 130 // the Job ends
	lastMoment = 139
)

func newLife(t *testing.T, w *watched) *life {
	t.Helper()
	l := &life{watched: w, t: t, began: time.Now().Truncate(time.Minute), pods: make(map[string]*corev1.Pod)}
	ctx, client := t.Context(), w.Client
	_, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: team}}, metav1.CreateOptions{})
	check(t, err)
	// Every pod needs a service account in its namespace. Here, no controller creates service accounts.
	_, err = client.CoreV1().ServiceAccounts(team).Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "default"}}, metav1.CreateOptions{})
	check(t, err)
	l.makeJob()
	l.makeDeployment()
	l.makePod("waits", 4, "", nil, schema.GroupVersionKind{})
	return l
}

func (l *life) at(minute int) metav1.Time {
	return metav1.NewTime(l.began.Add(time.Duration(minute) * time.Minute))
}

func (l *life) makeJob() {
	l.t.Helper()
	ctx, batch := l.t.Context(), l.Client.BatchV1()
	spec := batchv1.JobSpec{Parallelism: new(int32(2)), Completions: new(int32(2)), Template: template(corev1.RestartPolicyNever)}
	cron, err := batch.CronJobs(team).Create(ctx, &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Name: "nightly"}, Spec: batchv1.CronJobSpec{
		Schedule: "0 3 * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: spec},
	}}, metav1.CreateOptions{})
	check(l.t, err)
	job, err := batch.Jobs(team).Create(ctx, &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
		Name: "nightly-1", OwnerReferences: owned(cron, batchv1.SchemeGroupVersion.WithKind("CronJob")),
	}, Spec: spec}, metav1.CreateOptions{})
	check(l.t, err)
	l.cron, l.job = cron, job
	for _, name := range []string{"nightly-1-a", "nightly-1-b"} {
		l.makePod(name, 8, "gpu-node-1", job, batchv1.SchemeGroupVersion.WithKind("Job"))
	}
}

func (l *life) makeDeployment() {
	l.t.Helper()
	ctx, apps := l.t.Context(), l.Client.AppsV1()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "serving"}}
	deployment, err := apps.Deployments(team).Create(ctx, &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "chat"}, Spec: appsv1.DeploymentSpec{Selector: selector, Template: template(corev1.RestartPolicyAlways)},
	}, metav1.CreateOptions{})
	check(l.t, err)
	replicas, err := apps.ReplicaSets(team).Create(ctx, &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "chat-6f", OwnerReferences: owned(deployment, appsv1.SchemeGroupVersion.WithKind("Deployment"))},
		Spec:       appsv1.ReplicaSetSpec{Selector: selector, Template: template(corev1.RestartPolicyAlways)},
	}, metav1.CreateOptions{})
	check(l.t, err)
	l.deployment, l.replicas = deployment, replicas
	l.makePod("chat-6f-x", 2, "gpu-node-2", replicas, appsv1.SchemeGroupVersion.WithKind("ReplicaSet"))
}

func owned(by metav1.Object, gvk schema.GroupVersionKind) []metav1.OwnerReference {
	return []metav1.OwnerReference{*metav1.NewControllerRef(by, gvk)}
}

func template(restart corev1.RestartPolicy) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"team": "serving"}},
		Spec:       corev1.PodSpec{RestartPolicy: restart, Containers: []corev1.Container{{Name: "main", Image: "example.com/llm:v1"}}},
	}
}

// The pod is bound to a node, because there is no scheduler.
func (l *life) makePod(name string, gpus int, node string, owner metav1.Object, kind schema.GroupVersionKind) {
	l.t.Helper()
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": "serving"}}, Spec: template(corev1.RestartPolicyAlways).Spec}
	p.Spec.NodeName = node
	p.Spec.Containers[0].Resources.Limits = corev1.ResourceList{"nvidia.com/gpu": *resource.NewQuantity(int64(gpus), resource.DecimalSI)}
	if owner != nil {
		p.OwnerReferences = owned(owner, kind)
	}
	p, err := l.Client.CoreV1().Pods(team).Create(l.t.Context(), p, metav1.CreateOptions{})
	check(l.t, err)
	l.pods[name] = p
}

// set changes a pod's status, as the kubelet does.
func (l *life) set(name string, change func(*corev1.PodStatus)) {
	l.t.Helper()
	pods := l.Client.CoreV1().Pods(team)
	p, err := pods.Get(l.t.Context(), name, metav1.GetOptions{})
	check(l.t, err)
	change(&p.Status)
	_, err = pods.UpdateStatus(l.t.Context(), p, metav1.UpdateOptions{})
	check(l.t, err)
}

func conditions(ready corev1.ConditionStatus, scheduled, since metav1.Time) []corev1.PodCondition {
	return []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: scheduled},
		{Type: corev1.PodReady, Status: ready, LastTransitionTime: since},
	}
}

func (l *life) wait() {
	l.set("waits", func(s *corev1.PodStatus) {
		s.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: l.at(0),
		}}
	})
}

func (l *life) run(name string) {
	l.set(name, func(s *corev1.PodStatus) {
		s.Phase, s.StartTime, s.PodIP, s.PodIPs = corev1.PodRunning, new(l.at(atStart)), "10.0.0.1", []corev1.PodIP{{IP: "10.0.0.1"}}
		s.Conditions = conditions(corev1.ConditionTrue, l.at(atStart), l.at(atStart+1))
		s.ContainerStatuses = []corev1.ContainerStatus{{
			Name: "main", Image: "example.com/llm:v1", ImageID: "example.com/llm@sha256:0", ContainerID: "containerd://1", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: l.at(atStart)}},
		}}
	})
}

// After kill, the pod's status shows a container that was killed and restarted.
func (l *life) kill(name string) {
	l.set(name, func(s *corev1.PodStatus) {
		s.Conditions = conditions(corev1.ConditionFalse, l.at(atStart), l.at(atKill))
		s.ContainerStatuses[0].RestartCount = 1
		s.ContainerStatuses[0].LastTerminationState.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 137, Reason: "OOMKilled", StartedAt: l.at(atStart), FinishedAt: l.at(atKill),
		}
	})
}

func (l *life) end(name string) {
	l.set(name, func(s *corev1.PodStatus) {
		s.Phase = corev1.PodSucceeded
		s.Conditions = conditions(corev1.ConditionFalse, l.at(atStart), l.at(atEnd))
		s.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{
			Reason: "Completed", StartedAt: l.at(atStart), FinishedAt: l.at(atEnd),
		}}
	})
}

// The API server requires these status fields for a complete Job.
func (l *life) endJob() {
	l.t.Helper()
	jobs := l.Client.BatchV1().Jobs(team)
	job, err := jobs.Get(l.t.Context(), "nightly-1", metav1.GetOptions{})
	check(l.t, err)
	job.Status = batchv1.JobStatus{
		StartTime: new(l.at(0)), CompletionTime: new(l.at(atEnd)), Succeeded: 2, Ready: new(int32(0)), Terminating: new(int32(0)),
		UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
		Conditions: []batchv1.JobCondition{
			{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: l.at(atEnd)},
			{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: l.at(atEnd)},
		},
	}
	_, err = jobs.UpdateStatus(l.t.Context(), job, metav1.UpdateOptions{})
	check(l.t, err)
}

// pages waits until kube-state-metrics shows the last write and the reconciler shows all pods.
func (l *life) pages(metric string, labels map[string]string, value float64) []exposition.Page {
	l.t.Helper()
	var pages []exposition.Page
	eventually(l.t, "the pages show "+metric, func() error {
		state, own := scrape(l.t, l.stateMetrics), scrape(l.t, l.reconciler)
		pages = []exposition.Page{state, own}
		if n := len(own.Matches("gpuledger_pod_info", nil)); n != len(l.pods) {
			return fmt.Errorf("%d pods are shown", n)
		}
		for _, m := range state.Matches(metric, labels) {
			if exposition.Value(m) == value {
				return nil
			}
		}
		return fmt.Errorf("%s%v is not %v", metric, labels, value)
	})
	return pages
}
