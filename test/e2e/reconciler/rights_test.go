//go:build e2e

package reconciler_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	authorization "k8s.io/api/authorization/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
)

func asReconciler(t *testing.T) kubernetes.Interface {
	t.Helper()
	config := must(world.ServiceAccount(t.Context(), namespace, account))(t)
	return must(kubernetes.NewForConfig(config))(t)
}

func TestRights(t *testing.T) {
	client := asReconciler(t)
	tests := []struct {
		verbs, group, resource, subresource, namespace, name string
		want                                                 bool
	}{
		{verbs: "get list watch patch", resource: "nodes", want: true},
		{verbs: "create update delete deletecollection", resource: "nodes"},
		{verbs: "patch update", resource: "nodes", subresource: "status"},
		{verbs: "get create", resource: "nodes", subresource: "proxy"},
		{verbs: "get list watch", resource: "pods", want: true},
		{verbs: "create update patch delete", resource: "pods"},
		{verbs: "create get", resource: "pods", subresource: "exec"},
		{verbs: "get", resource: "pods", subresource: "log"},
		{verbs: "patch update", resource: "pods", subresource: "status"},
		{verbs: "get list watch", resource: "secrets"},
		{verbs: "get list watch", resource: "configmaps"},
		{verbs: "create", resource: "serviceaccounts", subresource: "token"},
		{verbs: "create patch", resource: "events", namespace: "default", want: true},
		{verbs: "create patch", resource: "events", namespace: "kube-system"},
		{verbs: "create", group: "coordination.k8s.io", resource: "leases", namespace: namespace, want: true},
		{verbs: "get update", group: "coordination.k8s.io", resource: "leases", namespace: namespace, name: account, want: true},
		{verbs: "get update patch delete", group: "coordination.k8s.io", resource: "leases", namespace: namespace, name: "other"},
		{verbs: "get update", group: "coordination.k8s.io", resource: "leases", namespace: "kube-system", name: account},
		{verbs: "list watch", group: "resource.k8s.io", resource: "resourceslices", want: true},
		{verbs: "list watch", group: "resource.k8s.io", resource: "resourceclaims", want: true},
		{verbs: "patch update", group: "resource.k8s.io", resource: "resourceclaims", subresource: "status"},
		{verbs: "list watch", group: "kueue.x-k8s.io", resource: "localqueues", want: true},
		{verbs: "create update patch delete", group: "kueue.x-k8s.io", resource: "localqueues"},
		{verbs: "get", group: "apps", resource: "replicasets", want: true},
		{verbs: "list watch patch", group: "apps", resource: "replicasets"},
		{verbs: "list watch", group: "apps", resource: "daemonsets", want: true},
		{verbs: "create update patch delete", group: "apps", resource: "daemonsets"},
		{verbs: "get", group: "jobset.x-k8s.io", resource: "jobsets", want: true},
		{verbs: "get", group: "grove.io", resource: "podcliquesets", want: true},
		{verbs: "get", group: "nvidia.com", resource: "dynamographdeployments", want: true},
		{verbs: "get", group: "apps.nvidia.com", resource: "nimservices", want: true},
		{verbs: "get", group: "tekton.dev", resource: "pipelineruns", want: true},
		{verbs: "get", group: "kubevirt.io", resource: "virtualmachines", want: true},
		{verbs: "get", group: "serving.knative.dev", resource: "services", want: true},
		{verbs: "get", group: "serving.kserve.io", resource: "llminferenceservices", want: true},
		{verbs: "get", group: "kubeflow.org", resource: "experiments", want: true},
		{verbs: "get", group: "workload.codeflare.dev", resource: "appwrappers", want: true},
		{verbs: "get", group: "sparkoperator.k8s.io", resource: "sparkapplications", want: true},
		{verbs: "get", group: "slinky.slurm.net", resource: "nodesets", want: true},
		{verbs: "list watch create", group: "kubevirt.io", resource: "virtualmachines"},
		{verbs: "get", resource: "services"},
		{verbs: "get", group: "example.com", resource: "trainings"},
		{verbs: "impersonate", resource: "users"},
		{verbs: "escalate bind", group: "rbac.authorization.k8s.io", resource: "clusterroles"},
	}
	for _, tt := range tests {
		for verb := range strings.FieldsSeq(tt.verbs) {
			name := fmt.Sprintf("%s %s/%s %s", verb, cmp.Or(tt.group, "core"), strings.TrimSuffix(tt.resource+"/"+tt.subresource, "/"), tt.namespace)
			t.Run(name, func(t *testing.T) {
				review := &authorization.SelfSubjectAccessReview{Spec: authorization.SelfSubjectAccessReviewSpec{
					ResourceAttributes: &authorization.ResourceAttributes{
						Verb: verb, Group: tt.group, Resource: tt.resource, Subresource: tt.subresource, Namespace: tt.namespace, Name: tt.name,
					},
				}}
				allowed := func() bool {
					return must(client.AuthorizationV1().SelfSubjectAccessReviews().Create(t.Context(), review, meta.CreateOptions{}))(t).Status.Allowed
				}
				if tt.want {
					eventually(t, "it is allowed", allowed) // the API server adds rules to the aggregated role after a moment
				} else if allowed() {
					t.Error("it is allowed")
				}
			})
		}
	}
}

// fence applies the policy with the given prefixes until the end of the test.
func fence(t *testing.T, prefixes string) {
	t.Helper()
	shipped := filepath.Join(manifests, "fence.yaml")
	const list = "'gpuledger.io/'"
	policy := string(must(os.ReadFile(shipped))(t))
	if strings.Count(policy, list) != 1 {
		t.Fatalf("%s does not contain the list of prefixes once: [%s]", shipped, list)
	}
	changed := filepath.Join(t.TempDir(), "fence.yaml")
	check(t, os.WriteFile(changed, []byte(strings.Replace(policy, list, prefixes, 1)), 0o600))
	check(t, world.ApplyFile(t.Context(), changed))
	t.Cleanup(func() { check(t, world.ApplyFile(context.Background(), shipped)) })
}

// TestFence checks, for every kind of request, that the account can change only labels and annotations of a Node. It
// must be able to change only keys with its own prefix.
func TestFence(t *testing.T) {
	client := asReconciler(t)
	nodes := world.Client.CoreV1().Nodes()
	node := &core.Node{ObjectMeta: meta.ObjectMeta{
		Name:        "fenced",
		Labels:      map[string]string{"zone": "a", "gpuledger.io/gpu-0": "1"},
		Annotations: map[string]string{"note": "a"},
	}}
	must(nodes.Create(t.Context(), node, meta.CreateOptions{}))(t)
	t.Cleanup(func() { check(t, nodes.Delete(context.Background(), "fenced", meta.DeleteOptions{})) })

	tests := []struct {
		name, patch string
		refused     string // part of the error; empty if the request is allowed
	}{
		{"own label set", `{"metadata":{"labels":{"gpuledger.io/gpu-1":"2"}}}`, ""},
		{"own label changed", `{"metadata":{"labels":{"gpuledger.io/gpu-0":"3"}}}`, ""},
		{"own label removed", `{"metadata":{"labels":{"gpuledger.io/gpu-0":null}}}`, ""},
		{"own annotation", `{"metadata":{"annotations":{"gpuledger.io/inventory":"{}"}}}`, ""},
		{"foreign label set", `{"metadata":{"labels":{"team":"b"}}}`, "labels under gpuledger.io/"},
		{"foreign label changed", `{"metadata":{"labels":{"zone":"b"}}}`, "labels under gpuledger.io/"},
		{"foreign label removed", `{"metadata":{"labels":{"zone":null}}}`, "labels under gpuledger.io/"},
		{"own and foreign label", `{"metadata":{"labels":{"gpuledger.io/gpu-0":"4","zone":"b"}}}`, "labels under gpuledger.io/"},
		{"prefix without its slash", `{"metadata":{"labels":{"gpuledger.io.example.com/gpu-0":"4"}}}`, "labels under gpuledger.io/"},
		{"foreign annotation set", `{"metadata":{"annotations":{"team":"b"}}}`, "annotations under gpuledger.io/"},
		{"foreign annotation removed", `{"metadata":{"annotations":{"note":null}}}`, "annotations under gpuledger.io/"},
		{"cordon", `{"spec":{"unschedulable":true}}`, "spec of a node"},
		{"taint", `{"spec":{"taints":[{"key":"k","effect":"NoExecute"}]}}`, "spec of a node"},
		{"finalizer", `{"metadata":{"finalizers":["example.com/stay"]}}`, "finalizers or owners"},
		{"owner", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"p","uid":"u"}]}}`, "finalizers or owners"},
	}
	patch := func(body string, options meta.PatchOptions) error {
		_, err := client.CoreV1().Nodes().Patch(t.Context(), "fenced", types.MergePatchType, []byte(body), options)
		return err
	}
	// A policy takes effect a moment after its creation. Until then, these requests must not change anything.
	dryRun := meta.PatchOptions{DryRun: []string{meta.DryRunAll}}
	eventually(t, "the policy is in force", func() bool { return patch(`{"spec":{"unschedulable":true}}`, dryRun) != nil })
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := patch(tt.patch, meta.PatchOptions{})
			switch {
			case tt.refused == "" && err != nil:
				t.Errorf("refused: %v", err)
			case tt.refused != "" && (err == nil || !strings.Contains(err.Error(), tt.refused)):
				t.Errorf("got %v, want an error with %q", err, tt.refused)
			}
		})
	}
	t.Run("the policy does not apply to another account", func(t *testing.T) {
		must(nodes.Patch(t.Context(), "fenced", types.MergePatchType, []byte(`{"spec":{"unschedulable":true}}`), meta.PatchOptions{}))(t)
	})
}

// TestOneMode checks each mode while only the roles for this mode exist. The mode must work, and must send no requests
// that need other roles.
func TestOneMode(t *testing.T) {
	newTeam(t)
	n := newNode(t, "a", "1")
	pod := &core.Pod{ObjectMeta: meta.ObjectMeta{Name: "one"}, Spec: asksForGPU("1", core.RestartPolicyNever).Spec}
	must(world.Client.CoreV1().Pods(team).Create(t.Context(), pod, meta.CreateOptions{}))(t)
	tests := []struct {
		mode, without string // the file with the roles for the other mode
		works         func(*replica)
	}{
		{"labels", "workloads.yaml", func(*replica) { n.awaitLabels(serials("1")) }},
		{"workloads", "labels.yaml", func(r *replica) { r.awaitPods("Pod", "one", 1) }},
	}
	for _, tt := range tests {
		t.Run(tt.mode, func(t *testing.T) {
			without := filepath.Join(manifests, tt.without)
			check(t, world.DeleteFile(t.Context(), without))
			t.Cleanup(func() { check(t, world.ApplyFile(context.Background(), without)) })
			since := now(t)
			tt.works(lead(t, "--enable="+tt.mode))
			refused := must(since.Requests(func(r *cluster.Request) bool { return r.User.Name == username && r.Status.Code == http.StatusForbidden }))(t)
			if len(refused) > 0 {
				t.Errorf("refused: %v", refused)
			}
		})
	}
}
