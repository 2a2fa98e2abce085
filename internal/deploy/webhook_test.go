package deploy_test

import (
	"os"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

// TestFence checks the policy that limits how the reconciler may change a webhook configuration. The policy must
// compare every field except caBundle.
func TestFence(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/webhook/fence.yaml")
	check(t, err)
	fields := 0
	for path, typ := range map[string]reflect.Type{
		"webhooks[0]": reflect.TypeFor[admissionv1.MutatingWebhook](), "webhooks[0].clientConfig": reflect.TypeFor[admissionv1.WebhookClientConfig](),
	} {
		for field := range typ.Fields() {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			if name == "caBundle" || name == "clientConfig" {
				continue
			}
			fields++
			optional := " object." + path + ".?" + name + " == oldObject." + path + ".?" + name
			if !strings.Contains(string(text), optional) && !strings.Contains(string(text), strings.ReplaceAll(optional, ".?", ".")) {
				t.Errorf("the fence does not compare %s of %s", name, path)
			}
		}
	}
	if fields < 12 {
		t.Errorf("%d fields, want at least 12", fields)
	}
}

// TestNodeFence checks the policy that limits how the reconciler may change Nodes. The policy must compare every field
// of the status except the conditions, which it filters.
func TestNodeFence(t *testing.T) {
	text, err := os.ReadFile(manifests + "base/reconciler/fence.yaml")
	check(t, err)
	fields := 0
	for field := range reflect.TypeFor[corev1.NodeStatus]().Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if name == "conditions" {
			continue
		}
		fields++
		if !regexp.MustCompile(` object\.status\.\?` + name + ` == oldObject\.status\.\?` + name + `\b`).Match(text) {
			t.Errorf("the fence does not compare %s of the status", name)
		}
	}
	if fields < 13 {
		t.Errorf("%d fields, want at least 13", fields)
	}
}

// TestSameConditions checks that the webhook has the same rules as the policy, and all of the policy's conditions that
// do not read parameters. The API server permits up to 64 conditions.
func TestSameConditions(t *testing.T) {
	policy, webhook := deploy.Policy().Spec, deploy.Webhook().Webhooks[0]
	var want []admissionv1.MatchCondition
	for _, c := range policy.MatchConditions {
		if !strings.Contains(c.Expression, "params") {
			want = append(want, c)
		}
	}
	if diff := cmp.Diff(want, webhook.MatchConditions); diff != "" || len(want) != len(policy.MatchConditions)-3 {
		t.Errorf("(-policy +webhook):\n%s", diff)
	}
	if diff := cmp.Diff(policy.MatchConstraints.ResourceRules[0].RuleWithOperations, webhook.Rules[0]); diff != "" {
		t.Errorf("rules (-policy +webhook):\n%s", diff)
	}
}
