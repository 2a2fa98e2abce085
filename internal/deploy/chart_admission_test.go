//go:build e2e

package deploy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartInjector checks whether the policy or the webhook adds the sidecar, for each Kubernetes version and the APIs
// that it serves. It also checks that the webhook's values have an effect.
func TestChartInjector(t *testing.T) {
	const policy, webhook = "MutatingAdmissionPolicygpuledger", "MutatingWebhookConfigurationgpuledger"
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--kube-version=1.36.0"}, policy},
		{[]string{"--kube-version=1.35.9"}, webhook},
		{[]string{"--kube-version=1.30.0"}, webhook},
		{[]string{"--kube-version=1.34.0", "--api-versions=admissionregistration.k8s.io/v1beta1/MutatingAdmissionPolicy"}, policy},
		{[]string{"--kube-version=1.36.0", "--set=sidecar.injector=webhook"}, webhook},
	}
	for _, tt := range tests {
		text, err := template(t, append(tt.args, valuesOf("operator"))...)
		check(t, err)
		got := ""
		for key := range objects(t, text) {
			for _, kind := range []string{policy, webhook} {
				if strings.ReplaceAll(key, "<nil>", "") == kind {
					got += kind
				}
			}
		}
		if got != tt.want {
			t.Errorf("%v: %q, want %q", tt.args, got, tt.want)
		}
	}
	text, err := template(t, valuesOf("webhook"), "--set=sidecar.webhook.existingSecret=mine,sidecar.webhook.annotations.a=b,namespaceOverride=elsewhere")
	check(t, err)
	for _, part := range []string{"--webhook.certificates=/etc/gpuledger/webhook", "secretName: mine", "a: b", "namespace: elsewhere"} {
		if !strings.Contains(text, part) {
			t.Errorf("the objects do not contain %q", part)
		}
	}
	if strings.Contains(text, "kind: Secret") || strings.Contains(text, "namespace: gpuledger\n") || strings.Contains(text, "serviceaccount:gpuledger:") {
		t.Error("the objects contain the Secret with the reconciler's certificates, or the default namespace")
	}
}

// TestChartDevicePlugin checks the network policy for the device plugin's pods. By default, it is the policy of the
// component. Labels in the values replace the labels for the platform.
func TestChartDevicePlugin(t *testing.T) {
	tests := []struct{ values, namespace, component string }{
		{"operator", "gpu-operator", "isolation-operator"},
		{"amd-sidecar", "kube-system", "isolation-amd"},
	}
	for _, tt := range tests {
		policy := func(args ...string) any {
			text, err := template(t, append(args, valuesOf(tt.values), "--set=networkPolicy.enabled=true")...)
			check(t, err)
			return objects(t, text)["NetworkPolicy"+tt.namespace+"gpuledger-sidecar"]
		}
		component, err := os.ReadFile("../../manifests/components/" + tt.component + "/networkpolicy.yaml")
		check(t, err)
		want := objects(t, string(component))["NetworkPolicy"+tt.namespace+"gpuledger-sidecar"]
		if diff := cmp.Diff(want, policy()); diff != "" || want == nil {
			t.Errorf("%s (-component +chart):\n%s", tt.values, diff)
		}
		labels := at(policy("--set=devicePlugin.podLabels.app=another"), "spec", "podSelector", "matchLabels")
		if diff := cmp.Diff(map[string]any{"app": "another"}, labels); diff != "" {
			t.Errorf("%s: labels (-want +got):\n%s", tt.values, diff)
		}
	}
}
