//go:build e2e

package deploy_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/gpuledger/gpuledger/internal/app"
)

// TestChartTests checks the objects for "helm test": the pod's command and rights, and the selector of its Service. The
// test of make e2e-kubelet runs the pod.
func TestChartTests(t *testing.T) {
	for _, name := range []string{"standalone", "amd", "everything"} {
		all := withTests(t, valuesOf(name), "--set=web.existingSecret=")
		var pod corev1.Pod
		into(t, all["Podgpuledgergpuledger-test"], &pod)
		if len(pod.Spec.Containers) != 1 {
			t.Fatalf("%s: %d containers, want 1", name, len(pod.Spec.Containers))
		}
		c := &pod.Spec.Containers[0]
		checkPrivileges(t, &pod.Spec, c)
		if _, err := app.Parse(c.Args, os.Getenv); err != nil {
			t.Errorf("%s: %v: %v", name, c.Args, err)
		}
		if got := len(c.Env) == 0; got != (name == "amd") {
			t.Errorf("%s: variables %v, want none only for AMD", name, c.Env)
		}
		selector, _ := at(all["Servicegpuledgergpuledger-test-exporters"], "spec", "selector").(map[string]any)
		labels, _ := at(all["DaemonSetgpuledgergpuledger"], "spec", "template", "metadata", "labels").(map[string]any)
		if diff := cmp.Diff(labels, selector); diff != "" || len(selector) == 0 {
			t.Errorf("%s: selector (-pods +Service):\n%s", name, diff)
		}
		if policy := all["NetworkPolicygpuledgergpuledger-test"] != nil; policy != (name == "everything") {
			t.Errorf("%s: a network policy: %v", name, policy)
		}
	}
}
