//go:build e2e

package deploy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admission "k8s.io/api/admissionregistration/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// kyvernoPolicy contains the fields of Kyverno's MutatingPolicy (policies.kyverno.io/v1) that the example sets.
type kyvernoPolicy struct {
	meta.TypeMeta
	meta.ObjectMeta `json:"metadata"`
	Spec            struct {
		FailurePolicy        admission.FailurePolicyType
		ReinvocationPolicy   admission.ReinvocationPolicyType
		WebhookConfiguration struct{ TimeoutSeconds int32 }
		MatchConstraints     admission.MatchResources
		MatchConditions      []admission.MatchCondition
		Variables            []admission.Variable
		Mutations            []admission.Mutation
	}
}

// TestKyverno checks that the expressions in the example for Kyverno change the same pods in the same way as the
// admission policy. The test does not run Kyverno. The API server evaluates the expressions, with a literal in place of
// the ConfigMap that Kyverno reads.
func TestKyverno(t *testing.T) {
	rendered := kubectl(t, "kustomize", manifests+"examples/kyverno")
	for kind, want := range map[string]int{"MutatingPolicy": 1, "MutatingAdmissionPolicy": 0, "MutatingAdmissionPolicyBinding": 0, "ConfigMap": 1} {
		if got := strings.Count(rendered, "\nkind: "+kind+"\n"); got != want {
			t.Errorf("%d objects of the kind %s, want %d", got, kind, want)
		}
	}
	text, err := os.ReadFile(manifests + "examples/kyverno/mutatingpolicy.yaml")
	check(t, err)
	var policy kyvernoPolicy
	check(t, yaml.UnmarshalStrict(text, &policy))
	if policy.Spec.FailurePolicy != admission.Ignore || policy.Spec.WebhookConfiguration.TimeoutSeconds != 2 {
		t.Errorf("an error in Kyverno would keep the device plugin from starting: %s, %d s", policy.Spec.FailurePolicy, policy.Spec.WebhookConfiguration.TimeoutSeconds)
	}
	const parameters = "resource.Get('v1', 'configmaps', 'gpuledger', 'gpuledger-sidecar')"
	if first := policy.Spec.Variables[0]; first.Name != "parameters" || first.Expression != parameters {
		t.Errorf("the first variable is %v", first)
	}

	operator := installers[2]
	pod := example(t, operator)
	const image = "registry.example.com/gpuledger:1"
	setParameters(t, image, map[string]string{"nodes": "gpu-1", "pullSecrets": "one, two", "arguments": "--log.level=debug"})
	on1, on2 := clone(pod, onNode("gpu-1")), clone(pod, onNode("gpu-2"))
	eventually(t, "the parameters are in force", func() bool {
		got, err := createAs(t, daemonSetController, operator.namespace, on1)
		check(t, err)
		return container(got) != nil && container(got).Image == image
	})
	want, err := createAs(t, daemonSetController, operator.namespace, on1)
	check(t, err)

	asKyverno(t, &policy, "{'data': {'image': '"+image+"', 'nodes': 'gpu-1', 'pullSecrets': 'one, two', 'arguments': '--log.level=debug'}}")
	const origin = "MutatingPolicy gpuledger"
	eventually(t, "the example's expressions are in force", func() bool {
		got, err := createAs(t, daemonSetController, operator.namespace, on1)
		check(t, err)
		return got.Annotations["gpuledger.io/injected-by"] == origin
	})
	got, err := createAs(t, daemonSetController, operator.namespace, on1)
	check(t, err)
	want.Annotations["gpuledger.io/injected-by"] = origin
	for name, pair := range map[string][2]any{
		"containers":   {*container(want), *container(got)},
		"volumes":      {ours(want), ours(got)},
		"pull secrets": {want.Spec.ImagePullSecrets, got.Spec.ImagePullSecrets},
		"host's PIDs":  {want.Spec.HostPID, got.Spec.HostPID},
		"annotations":  {want.Annotations, got.Annotations},
	} {
		if diff := cmp.Diff(pair[0], pair[1]); diff != "" {
			t.Errorf("%s (-by the policy +by the example):\n%s", name, diff)
		}
	}
	for user, other := range map[string]string{"admin": "gpu-1", daemonSetController: "gpu-2"} {
		asked := on1
		if other == "gpu-2" {
			asked = on2
		}
		if got, err := createAs(t, user, operator.namespace, asked); err != nil || hasSidecar(got) {
			t.Errorf("a pod of %s on %s has the container, or %v", user, other, err)
		}
	}
}

// asKyverno replaces the policy's expressions with the expressions in the example, and sets the value of the first
// variable.
func asKyverno(t *testing.T, example *kyvernoPolicy, parameters string) {
	t.Helper()
	policies := world.Client.AdmissionregistrationV1().MutatingAdmissionPolicies()
	policy, err := policies.Get(t.Context(), "gpuledger", meta.GetOptions{})
	check(t, err)
	policy.Spec.MatchConditions, policy.Spec.Variables, policy.Spec.Mutations = example.Spec.MatchConditions, example.Spec.Variables[1:], example.Spec.Mutations
	read := func(expression string) string {
		return strings.ReplaceAll(expression, "variables.parameters", parameters)
	}
	for i := range policy.Spec.MatchConditions {
		policy.Spec.MatchConditions[i].Expression = read(policy.Spec.MatchConditions[i].Expression)
	}
	for i := range policy.Spec.Variables {
		policy.Spec.Variables[i].Expression = read(policy.Spec.Variables[i].Expression)
	}
	_, err = policies.Update(t.Context(), policy, meta.UpdateOptions{})
	check(t, err)
}
