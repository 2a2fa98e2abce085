//go:build e2e

package deploy_test

import (
	"context"
	"encoding/base64"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/gpuledger/gpuledger/internal/reconciler/certificate"
)

// TestWebhookRights checks that the reconciler's account can change only the caBundle of its webhook and the Secret
// with the certificates. The account must have no other rights for admission or Secrets.
func TestWebhookRights(t *testing.T) {
	apply(t, "-k", "testdata/webhook")
	config, err := world.ServiceAccount(t.Context(), "gpuledger", "gpuledger-reconciler")
	check(t, err)
	client, err := kubernetes.NewForConfig(config)
	check(t, err)
	ctx := t.Context()
	other := &core.Secret{ObjectMeta: meta.ObjectMeta{Namespace: "gpuledger", Name: "another"}}
	_, err = world.Client.CoreV1().Secrets("gpuledger").Create(ctx, other, meta.CreateOptions{})
	check(t, err)
	t.Cleanup(func() {
		_ = world.Client.CoreV1().Secrets("gpuledger").Delete(context.Background(), "another", meta.DeleteOptions{}) // the namespace may be deleted already
	})
	webhooks, secrets := client.AdmissionregistrationV1().MutatingWebhookConfigurations(), client.CoreV1().Secrets("gpuledger")
	mine := meta.ListOptions{FieldSelector: "metadata.name=gpuledger-webhook"}
	for name, do := range map[string]func() error{
		"read another Secret":   func() error { _, err := secrets.Get(ctx, "another", meta.GetOptions{}); return err },
		"list all Secrets":      func() error { _, err := secrets.List(ctx, meta.ListOptions{}); return err },
		"update another Secret": func() error { _, err := secrets.Update(ctx, other, meta.UpdateOptions{}); return err },
		"create a Secret":       func() error { _, err := secrets.Create(ctx, other, meta.CreateOptions{}); return err },
		"delete its Secret":     func() error { return secrets.Delete(ctx, "gpuledger-webhook", meta.DeleteOptions{}) },
		"Secrets elsewhere":     func() error { _, err := client.CoreV1().Secrets("kube-system").List(ctx, mine); return err },
		"list all ConfigMaps": func() error {
			_, err := client.CoreV1().ConfigMaps("gpuledger").List(ctx, meta.ListOptions{})
			return err
		},
		"change its parameters": func() error {
			_, err := client.CoreV1().ConfigMaps("gpuledger").Patch(ctx, "gpuledger-sidecar", types.MergePatchType, []byte(`{}`), meta.PatchOptions{})
			return err
		},
		"another webhook": func() error {
			_, err := webhooks.Patch(ctx, "another", types.JSONPatchType, []byte(`[]`), meta.PatchOptions{})
			return err
		},
		"delete its webhook": func() error { return webhooks.Delete(ctx, "gpuledger", meta.DeleteOptions{}) },
		"list all webhooks":  func() error { _, err := webhooks.List(ctx, meta.ListOptions{}); return err },
	} {
		if err := do(); !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want an error of kind Forbidden", name, err)
		}
	}
	list, err := secrets.List(ctx, mine)
	check(t, err)
	if len(list.Items) != 1 {
		t.Fatalf("%d Secrets of the webhook, want 1", len(list.Items))
	}
	_, err = secrets.Update(ctx, &list.Items[0], meta.UpdateOptions{})
	check(t, err)
	fenced(t, client)
}

// fenced checks that the policy in fence.yaml permits the reconciler to change only caBundle in the webhook's
// configuration.
func fenced(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	patch := func(operation string) error {
		options := meta.PatchOptions{DryRun: []string{meta.DryRunAll}}
		_, err := client.AdmissionregistrationV1().MutatingWebhookConfigurations().Patch(t.Context(), "gpuledger", types.JSONPatchType, []byte("["+operation+"]"), options)
		return err
	}
	refused := func(operation string) bool {
		err := patch(operation)
		return err != nil && strings.Contains(err.Error(), "gpuledger-reconciler may")
	}
	replace := func(path, value string) string {
		return `{"op": "replace", "path": "` + path + `", "value": ` + value + `}`
	}
	eventually(t, "the fence is in force", func() bool { return refused(replace("/webhooks/0/timeoutSeconds", "1")) })
	for _, operation := range []string{
		replace("/webhooks/0/rules/0/resources", `["secrets"]`),
		replace("/webhooks/0/rules/0/operations", `["*"]`),
		replace("/webhooks/0/clientConfig/service/name", `"other"`),
		replace("/webhooks/0/clientConfig/service/namespace", `"elsewhere"`),
		replace("/webhooks/0/clientConfig/service/path", `"/other"`),
		replace("/webhooks/0/clientConfig", `{"url": "https://example.com/"}`),
		replace("/webhooks/0/namespaceSelector", `{}`),
		replace("/webhooks/0/objectSelector", `{"matchLabels": {"a": "b"}}`),
		replace("/webhooks/0/matchConditions", `[]`),
		replace("/webhooks/0/matchConditions/0/expression", `"true"`),
		replace("/webhooks/0/matchPolicy", `"Exact"`),
		replace("/webhooks/0/failurePolicy", `"Fail"`),
		replace("/webhooks/0/reinvocationPolicy", `"Never"`),
		replace("/webhooks/0/sideEffects", `"NoneOnDryRun"`),
		replace("/webhooks/0/name", `"other.gpuledger.io"`),
		replace("/webhooks", "[]"),
		replace("/metadata/labels", `{"a": "b"}`),
		`{"op": "add", "path": "/metadata/annotations", "value": {"a": "b"}}`,
		`{"op": "add", "path": "/metadata/finalizers", "value": ["example.com/a"]}`,
		`{"op": "copy", "from": "/webhooks/0", "path": "/webhooks/-"}, {"op": "replace", "path": "/webhooks/1/name", "value": "other.gpuledger.io"}`,
	} {
		if !refused(operation) {
			t.Errorf("%s: %v, want the fence's message", operation, patch(operation))
		}
	}
	secret, err := world.Client.CoreV1().Secrets("gpuledger").Get(t.Context(), "gpuledger-webhook", meta.GetOptions{})
	check(t, err)
	filled, _, err := certificate.Renew(secret.Data, "x", time.Now())
	check(t, err)
	authority := base64.StdEncoding.EncodeToString(filled[certificate.Authority])
	check(t, patch(`{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": "`+authority+`"}`))
}
