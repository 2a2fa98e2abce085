//go:build e2e

package deploy_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestDryRun: the API server takes every object of every overlay, and knows each of
// its fields.
func TestDryRun(t *testing.T) {
	files, err := filepath.Glob(manifests + "rendered/*.yaml")
	check(t, err)
	if len(files) < 10 {
		t.Fatalf("only %d files", len(files))
	}
	files = append(files, manifests+"examples/flux/helmrelease.yaml")
	for _, namespace := range []string{"gpuledger", "gpuledger-uninstall"} {
		kubectl(t, "create", "namespace", namespace)
		t.Cleanup(func() { remove(t, "namespace", namespace) })
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			out := kubectl(t, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename="+file)
			if got := strings.Count(out, "(server dry run)"); got == 0 {
				t.Errorf("nothing was applied:\n%s", out)
			}
		})
	}
	t.Run("an unknown field is refused", func(t *testing.T) {
		text := kubectl(t, "kustomize", overlay("dra"))
		wrong := strings.Replace(text, "readOnlyRootFilesystem:", "readOnlyRootFilesystm:", 1)
		if _, err := try(t, wrong, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-"); err == nil || !strings.Contains(err.Error(), "readOnlyRootFilesystm") {
			t.Errorf("got %v", err)
		}
	})
}

// TestBeta: the policy by its name in Kubernetes 1.34 and 1.35.
func TestBeta(t *testing.T) {
	static := installers[0]
	apply(t, "-f", static.file())
	pod := fresh(&podsOf(t, static.namespace, static.daemonSet)[0])
	if out := kubectl(t, "kustomize", "testdata/v1beta1"); strings.Count(out, "apiVersion: admissionregistration.k8s.io/v1beta1\n") != 2 {
		t.Error("the policy and its binding are not v1beta1")
	}
	apply(t, "-k", "testdata/v1beta1")
	policyActs(t, static, pod)
}
