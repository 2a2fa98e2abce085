//go:build e2e

package deploy_test

import (
	"cmp"
	"fmt"
	"os"
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
			text, err := os.ReadFile(file)
			check(t, err)
			taken(t, string(text))
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

// taken asks the API server to take each of the objects, with no field that it does not
// know, and to store none.
func taken(t *testing.T, text string) {
	t.Helper()
	out, err := try(t, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
	check(t, err)
	want := strings.Count("\n"+text, "\nkind: ")
	if got := strings.Count(out, "(server dry run)"); got != want || want == 0 {
		t.Errorf("%d objects of %d were taken:\n%s", got, want, out)
	}
}

// TestComponents: every component can be added to an overlay that it is for, and every
// object that comes out of that is taken.
func TestComponents(t *testing.T) {
	kubectl(t, "create", "namespace", "gpuledger")
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	folders, err := filepath.Glob(manifests + "components/*")
	check(t, err)
	if len(folders) < 10 {
		t.Fatalf("only %d components", len(folders))
	}
	// What they patch or stand beside, where it is not the overlay for the GPU Operator.
	resources := map[string]string{
		"exporter": "manifests/base/reconciler", "web-config": "manifests/overlays/aks",
		"sidecar": "test/e2e/deploy/testdata/installers/static",
	}
	root, err := filepath.Abs("../../..")
	check(t, err)
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			relative, err := filepath.Rel(dir, root)
			check(t, err)
			resource := cmp.Or(resources[name], "manifests/overlays/operator")
			text := fmt.Sprintf("resources: [%s/%s]\ncomponents: [%s/manifests/components/%s]\n", relative, resource, relative, name)
			check(t, os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600))
			with := kubectl(t, "kustomize", dir)
			if with == kubectl(t, "kustomize", filepath.Join(root, resource)) {
				t.Error("the component changes nothing")
			}
			taken(t, with)
		})
	}
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
