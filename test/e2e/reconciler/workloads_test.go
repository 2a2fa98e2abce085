//go:build e2e

package reconciler_test

import (
	"context"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apps "k8s.io/api/apps/v1"
	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/gpuledger/gpuledger/test/exposition"
)

const team = "team"

// The pods of this template stay pending, because the cluster has no scheduler.
func asksForGPU(count string, restart core.RestartPolicy) core.PodTemplateSpec {
	return core.PodTemplateSpec{
		ObjectMeta: meta.ObjectMeta{Labels: map[string]string{"app": "training"}},
		Spec: core.PodSpec{RestartPolicy: restart, Containers: []core.Container{{
			Name: "train", Image: "train", Resources: core.ResourceRequirements{
				Limits: core.ResourceList{"nvidia.com/gpu": resource.MustParse(count)},
			},
		}}},
	}
}

// newTeam creates the namespace once for all tests, because a namespace cannot be deleted without the namespace
// controller. After each test, it deletes the content of the namespace.
func newTeam(t *testing.T) {
	t.Helper()
	namespaces := world.Client.CoreV1().Namespaces()
	if _, err := namespaces.Get(t.Context(), team, meta.GetOptions{}); err != nil {
		must(namespaces.Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: team}}, meta.CreateOptions{}))(t)
	}
	eventually(t, "the namespace has its service account", func() bool {
		_, err := world.Client.CoreV1().ServiceAccounts(team).Get(t.Context(), "default", meta.GetOptions{})
		return err == nil
	})
	t.Cleanup(func() {
		ctx, all, now := context.Background(), meta.ListOptions{}, meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}
		check(t, world.Client.AppsV1().Deployments(team).DeleteCollection(ctx, now, all))
		check(t, world.Client.AppsV1().ReplicaSets(team).DeleteCollection(ctx, now, all))
		check(t, world.Client.BatchV1().CronJobs(team).DeleteCollection(ctx, now, all))
		check(t, world.Client.BatchV1().Jobs(team).DeleteCollection(ctx, now, all))
		// The Job controller may create another pod. It must remove the finalizers of the pods.
		eventually(t, "no pods are left", func() bool {
			check(t, world.Client.CoreV1().Pods(team).DeleteCollection(ctx, now, all))
			pods, err := world.Client.CoreV1().Pods(team).List(ctx, all)
			return err == nil && len(pods.Items) == 0
		})
	})
}

func podsOf(p exposition.Page, kind, name string) []map[string]string {
	var pods []map[string]string
	for _, m := range p.Matches("gpuledger_pod_info", map[string]string{"namespace": team, "workload_kind": kind, "workload_name": name}) {
		pods = append(pods, exposition.Labels(m))
	}
	return pods
}

func (r *replica) awaitPods(kind, name string, want int) []map[string]string {
	r.t.Helper()
	var pods []map[string]string
	eventually(r.t, "the pods of "+kind+" "+name+" are shown", func() bool {
		pods = podsOf(r.scrape(), kind, name)
		return len(pods) == want
	})
	return pods
}

// TestWorkloads checks pending pods of a Deployment and of a CronJob, which the real controllers create. The page must
// contain these pods with all their owners. It must not contain a pod that requests no GPU. The reconciler must write
// nothing.
func TestWorkloads(t *testing.T) {
	stop := must(world.StartControllers("deployment-controller", "replicaset-controller", "job-controller"))(t)
	t.Cleanup(stop)
	newTeam(t)
	deployment := &apps.Deployment{ObjectMeta: meta.ObjectMeta{Name: "serve"}, Spec: apps.DeploymentSpec{
		Replicas: new(int32(2)), Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "training"}}, Template: asksForGPU("4", core.RestartPolicyAlways),
	}}
	deployment = must(world.Client.AppsV1().Deployments(team).Create(t.Context(), deployment, meta.CreateOptions{}))(t)
	job := batch.JobSpec{Template: asksForGPU("8", core.RestartPolicyNever)}
	cron := &batch.CronJob{ObjectMeta: meta.ObjectMeta{Name: "nightly"}, Spec: batch.CronJobSpec{
		Schedule: "0 3 * * *", JobTemplate: batch.JobTemplateSpec{Spec: job},
	}}
	cron = must(world.Client.BatchV1().CronJobs(team).Create(t.Context(), cron, meta.CreateOptions{}))(t)
	// The CronJob controller would create such a Job at three o'clock.
	night := &batch.Job{ObjectMeta: meta.ObjectMeta{Name: "nightly-1", OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(cron, batch.SchemeGroupVersion.WithKind("CronJob"))}}, Spec: job}
	night = must(world.Client.BatchV1().Jobs(team).Create(t.Context(), night, meta.CreateOptions{}))(t)
	bare := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "bare"}, Spec: asksForGPU("1", core.RestartPolicyNever).Spec}
	bare = must(world.Client.CoreV1().Pods(team).Create(t.Context(), bare, meta.CreateOptions{}))(t)
	none := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "none"}, Spec: core.PodSpec{Containers: []core.Container{{Name: "c", Image: "i"}}}}
	must(world.Client.CoreV1().Pods(team).Create(t.Context(), none, meta.CreateOptions{}))(t)

	since := now(t)
	r := lead(t, "--retention=2s")
	for _, pod := range r.awaitPods("Deployment", "serve", 2) {
		if pod["workload_uid"] != string(deployment.UID) || pod["owner_kind"] != "ReplicaSet" || !strings.HasPrefix(pod["owner_name"], "serve-") || pod["node"] != "" {
			t.Errorf("pod of the Deployment: %v", pod)
		}
		if got := r.value("gpuledger_pod_gpu_requests", map[string]string{"pod_uid": pod["pod_uid"], "resource": "nvidia.com/gpu"}); got != 4 {
			t.Errorf("the pod requests %v GPUs, want 4", got)
		}
	}
	of := r.awaitPods("CronJob", "nightly", 1)[0]
	if of["workload_uid"] != string(cron.UID) || of["owner_kind"] != "Job" || of["owner_name"] != "nightly-1" {
		t.Errorf("pod of the CronJob: %v", of)
	}
	p := r.scrape()
	for _, level := range []map[string]string{
		{"kind": "Job", "namespace": team, "name": "nightly-1", "uid": string(night.UID), "parent_uid": string(cron.UID)},
		{"kind": "CronJob", "namespace": team, "name": "nightly", "uid": string(cron.UID), "parent_uid": ""},
		{"kind": "Deployment", "namespace": team, "name": "serve", "uid": string(deployment.UID), "parent_uid": ""},
	} {
		if len(p.Matches("gpuledger_workload_info", level)) != 1 {
			t.Errorf("no single series for %v", level)
		}
	}
	if pod := r.awaitPods("Pod", "bare", 1)[0]; pod["workload_uid"] != string(bare.UID) || pod["owner_kind"] != "" {
		t.Errorf("pod without a controller: %v", pod)
	}
	if all := p.Matches("gpuledger_pod_info", nil); len(all) != 4 {
		t.Errorf("%d pods are shown, want 4", len(all))
	}
	check(t, world.Client.CoreV1().Pods(team).Delete(t.Context(), "bare", meta.DeleteOptions{GracePeriodSeconds: new(int64(0))}))
	r.awaitPods("Pod", "bare", 0)
	if writes := allWrites(t, since); len(writes) > 0 {
		t.Errorf("writes: %v", writes)
	}
}

// TestPodOwner checks an owner chain that contains a pod. In a LeaderWorkerSet, for example, the leader pod of a group
// owns the StatefulSet of the workers. The reconciler must follow the chain past such a pod.
func TestPodOwner(t *testing.T) {
	newTeam(t)
	pods, sets := world.Client.CoreV1().Pods(team), world.Client.AppsV1().StatefulSets(team)
	owned := func(name string, controller ...meta.OwnerReference) meta.ObjectMeta {
		return meta.ObjectMeta{Name: name, OwnerReferences: controller}
	}
	set := func(object meta.ObjectMeta) meta.OwnerReference {
		s := &apps.StatefulSet{ObjectMeta: object, Spec: apps.StatefulSetSpec{
			Selector: &meta.LabelSelector{MatchLabels: map[string]string{"app": "training"}}, Template: asksForGPU("8", core.RestartPolicyAlways),
		}}
		s = must(sets.Create(t.Context(), s, meta.CreateOptions{}))(t)
		t.Cleanup(func() { check(t, sets.Delete(context.Background(), s.Name, meta.DeleteOptions{})) })
		return *meta.NewControllerRef(s, apps.SchemeGroupVersion.WithKind("StatefulSet"))
	}
	pod := func(object meta.ObjectMeta) meta.OwnerReference {
		p := &core.Pod{ObjectMeta: object, Spec: asksForGPU("8", core.RestartPolicyAlways).Spec}
		p = must(pods.Create(t.Context(), p, meta.CreateOptions{}))(t)
		return *meta.NewControllerRef(p, core.SchemeGroupVersion.WithKind("Pod"))
	}
	leaders := set(owned("group"))
	pod(owned("group-0-1", set(owned("group-0", pod(owned("group-0", leaders))))))

	r := lead(t, "--enable=workloads")
	r.awaitPods("StatefulSet", "group", 2)
	if stopped := r.scrape().Matches("gpuledger_workload_walks_stopped", nil); len(stopped) > 0 {
		t.Errorf("walks stopped: %v", stopped)
	}
}

// In TestCustomOwners, an Experiment owns Trials, and a Trial owns pods.
var (
	experiments = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "experiments"}
	trials      = schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "trials"}
)

func newOwned(t *testing.T, client dynamic.Interface, of schema.GroupVersionResource, kind, name string, owner *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": kind}}
	object.SetName(name)
	if owner != nil {
		object.SetOwnerReferences([]meta.OwnerReference{*meta.NewControllerRef(owner, owner.GroupVersionKind())})
	}
	var created *unstructured.Unstructured
	eventually(t, "the kind "+kind+" is served", func() (ok bool) {
		var err error
		created, err = client.Resource(of).Namespace(team).Create(t.Context(), object, meta.CreateOptions{})
		return err == nil
	})
	t.Cleanup(func() {
		_ = client.Resource(of).Namespace(team).Delete(context.Background(), name, meta.DeleteOptions{})
	})
	return created
}

// TestCustomOwners checks that a pod can have an owner of any kind. Until the role is extended, the chain must end at
// the object that the reconciler may not read. The reconciler must log this.
func TestCustomOwners(t *testing.T) {
	newTeam(t)
	check(t, world.ApplyFile(t.Context(), "testdata/owners.yaml"))
	client := must(dynamic.NewForConfig(world.Admin))(t)
	experiment := newOwned(t, client, experiments, "Experiment", "search", nil)
	trial := newOwned(t, client, trials, "Trial", "search-1", experiment)
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "search-1-0", OwnerReferences: []meta.OwnerReference{*meta.NewControllerRef(trial, trial.GroupVersionKind())}}, Spec: asksForGPU("8", core.RestartPolicyNever).Spec}
	must(world.Client.CoreV1().Pods(team).Create(t.Context(), pod, meta.CreateOptions{}))(t)

	r := lead(t, "--enable=workloads")
	r.awaitPods("Trial", "search-1", 1)
	if got := r.value("gpuledger_workload_walks_stopped", map[string]string{"kind": "Trial", "reason": "forbidden"}); got != 1 {
		t.Errorf("walks that RBAC stopped at a Trial: %v, want 1", got)
	}
	if len(r.logLines("Trial")) != 1 {
		t.Errorf("the log names the kind in %d lines, want 1: %v", len(r.logLines("Trial")), r.logLines("Trial"))
	}
	r.stop()

	// A user extends the role with another role that has this label.
	role := &rbac.ClusterRole{
		ObjectMeta: meta.ObjectMeta{Name: "our-own-kinds", Labels: map[string]string{"gpuledger.io/owners": "true"}},
		Rules:      []rbac.PolicyRule{{APIGroups: []string{"example.com"}, Resources: []string{"experiments", "trials"}, Verbs: []string{"get"}}},
	}
	roles := world.Client.RbacV1().ClusterRoles()
	must(roles.Create(t.Context(), role, meta.CreateOptions{}))(t)
	t.Cleanup(func() { _ = roles.Delete(context.Background(), role.Name, meta.DeleteOptions{}) })
	eventually(t, "the role contains the rule", func() bool {
		aggregated := must(roles.Get(t.Context(), "gpuledger-reconciler-owners", meta.GetOptions{}))(t)
		return slices.ContainsFunc(aggregated.Rules, func(r rbac.PolicyRule) bool { return slices.Contains(r.Resources, "trials") })
	})
	got := lead(t, "--enable=workloads").awaitPods("Experiment", "search", 1)[0]
	want := map[string]string{
		"namespace": team, "pod": "search-1-0", "node": "", "owner_kind": "Trial", "owner_name": "search-1",
		"workload_kind": "Experiment", "workload_name": "search", "workload_uid": string(experiment.GetUID()), "queue": "", "cluster_queue": "",
	}
	delete(got, "pod_uid")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pod's labels (-want +got):\n%s", diff)
	}
}

// TestQueue checks the queues of a Job that Kueue manages, with the shipped role and both API versions of LocalQueue.
// The LocalQueue is created while the reconciler runs.
func TestQueue(t *testing.T) {
	stop := must(world.StartControllers("job-controller"))(t)
	t.Cleanup(stop)
	newTeam(t)
	check(t, world.ApplyFile(t.Context(), "testdata/kueue.yaml"))
	client := must(dynamic.NewForConfig(world.Admin))(t)
	template := asksForGPU("8", core.RestartPolicyNever)
	template.Labels["kueue.x-k8s.io/cluster-queue-name"] = "forged"
	job := &batch.Job{ObjectMeta: meta.ObjectMeta{Name: "sample-job", Labels: map[string]string{"kueue.x-k8s.io/queue-name": "user-queue"}}, Spec: batch.JobSpec{Template: template}}
	must(world.Client.BatchV1().Jobs(team).Create(t.Context(), job, meta.CreateOptions{}))(t)
	r := lead(t, "--enable=workloads")
	if pod := r.awaitPods("Job", "sample-job", 1)[0]; pod["queue"] != "user-queue" || pod["cluster_queue"] != "" {
		t.Errorf("pod before the LocalQueue exists: %v", pod)
	}
	queue := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "kueue.x-k8s.io/v1beta1", "kind": "LocalQueue", "metadata": map[string]any{"name": "user-queue"},
		"spec": map[string]any{"clusterQueue": "cluster-queue"},
	}}
	queues := client.Resource(schema.GroupVersionResource{Group: "kueue.x-k8s.io", Version: "v1beta1", Resource: "localqueues"}).Namespace(team)
	eventually(t, "the LocalQueue is created", func() bool {
		_, err := queues.Create(t.Context(), queue, meta.CreateOptions{})
		return err == nil
	})
	t.Cleanup(func() { _ = queues.Delete(context.Background(), "user-queue", meta.DeleteOptions{}) })
	eventually(t, "the pod has the ClusterQueue", func() bool {
		return r.awaitPods("Job", "sample-job", 1)[0]["cluster_queue"] == "cluster-queue"
	})
}

func TestWorkloadsHandover(t *testing.T) {
	newTeam(t)
	for _, name := range []string{"one", "two"} {
		pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: name}, Spec: asksForGPU("1", core.RestartPolicyNever).Spec}
		must(world.Client.CoreV1().Pods(team).Create(t.Context(), pod, meta.CreateOptions{}))(t)
	}
	first := lead(t, "--enable=workloads", "--leader-election.identity=first")
	second := start(t, must(world.ServiceAccount(t.Context(), namespace, account))(t), "--enable=workloads", "--leader-election.identity=second")
	first.awaitPods("Pod", "one", 1)
	first.awaitPods("Pod", "two", 1)
	before := series(first.scrape())
	if got := series(second.scrape()); len(got) > 0 {
		t.Errorf("the follower shows %v", got)
	}
	first.stop()
	second.awaitPods("Pod", "one", 1)
	second.awaitPods("Pod", "two", 1)
	if diff := cmp.Diff(before, series(second.scrape())); diff != "" {
		t.Errorf("series of the new leader (-before +after):\n%s", diff)
	}
}

func series(p exposition.Page) []string {
	var all []string
	for _, name := range []string{"gpuledger_pod_info", "gpuledger_pod_gpu_requests", "gpuledger_workload_info"} {
		for _, m := range p.Matches(name, nil) {
			labels := exposition.Labels(m)
			text := name
			for _, key := range slices.Sorted(maps.Keys(labels)) {
				text += " " + key + "=" + labels[key]
			}
			all = append(all, text)
		}
	}
	slices.Sort(all)
	return all
}
