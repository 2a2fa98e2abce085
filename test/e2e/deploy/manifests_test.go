//go:build e2e

package deploy_test

import (
	"cmp"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestDryRun checks that the API server accepts every object and every field in every overlay.
func TestDryRun(t *testing.T) {
	files, err := filepath.Glob("../../../bin/manifests/*.yaml")
	check(t, err)
	if len(files) < 10 {
		t.Fatalf("found %d files, want at least 10: run make manifests", len(files))
	}
	files = append(files, manifests+"examples/flux/helmrelease.yaml", manifests+"examples/flux/gpuledger.yaml", manifests+"examples/argocd/application.yaml")
	for _, namespace := range []string{"gpuledger", "gpuledger-uninstall", "flux-system", "argocd"} {
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
			t.Errorf("apply with an unknown field: %v, want an error that names readOnlyRootFilesystm", err)
		}
	})
}

// taken checks that the API server accepts each object in a YAML stream. The strict validation rejects unknown fields.
func taken(t *testing.T, text string) {
	t.Helper()
	out, err := try(t, text, "apply", "--server-side", "--dry-run=server", "--validate=strict", "--filename=-")
	check(t, err)
	want := strings.Count("\n"+text, "\nkind: ")
	if got := strings.Count(out, "(server dry run)"); got != want || want == 0 {
		t.Errorf("the API server accepted %d objects of %d:\n%s", got, want, out)
	}
}

// TestWarnings checks that kubectl prints no Pod Security warning for our namespaces.
func TestWarnings(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	for _, folder := range []string{"overlays/standalone", "overlays/example", "uninstall/host"} {
		t.Run(folder, func(t *testing.T) {
			t.Cleanup(func() { remove(t, "-k", manifests+folder) })
			out := shell(t, "", "kubectl apply --server-side -k "+absolute(t, manifests+folder))
			for line := range strings.Lines(out) {
				if strings.HasPrefix(line, "Warning:") {
					t.Error(line)
				}
			}
		})
	}
}

// TestPodMonitor checks the component podmonitor in each overlay. Prometheus must scrape exactly the pods of the
// DaemonSet that the reconciler reads.
func TestPodMonitor(t *testing.T) {
	overlays, err := filepath.Glob(manifests + "overlays/*")
	check(t, err)
	exporters := regexp.MustCompile(`- name: EXPORTERS\n +value: (\S+)/(\S+)\n`)
	for _, folder := range overlays {
		if filepath.Base(folder) == "example" {
			continue // this overlay already has the component
		}
		t.Run(filepath.Base(folder), func(t *testing.T) {
			dir := t.TempDir()
			compose(t, dir, map[string]any{"resources": []string{folder}, "components": []string{manifests + "components/podmonitor"}})
			text := kubectl(t, "kustomize", dir)
			read := exporters.FindStringSubmatch(text)
			if read == nil {
				t.Fatal("the reconciler has no DaemonSet in EXPORTERS")
			}
			if !strings.Contains(text, "    matchNames:\n    - "+read[1]+"\n  podMetricsEndpoints:") {
				t.Errorf("the PodMonitor does not select the namespace %s", read[1])
			}
			if got := strings.Count(text, "    - action: keep\n      regex: "+read[1]+"/"+read[2]+"\n"); got != 2 {
				t.Errorf("%d endpoints are for %s/%s, want 2", got, read[1], read[2])
			}
		})
	}
}

// compose writes a kustomization into a folder. kustomize requires paths relative to this folder. Therefore compose
// converts paths relative to this package.
func compose(t *testing.T, folder string, kustomization map[string]any) {
	t.Helper()
	for _, field := range []string{"resources", "components"} {
		paths, _ := kustomization[field].([]string)
		for i := range paths {
			relative, err := filepath.Rel(absolute(t, folder), absolute(t, paths[i]))
			check(t, err)
			paths[i] = relative
		}
	}
	text, err := yaml.Marshal(kustomization)
	check(t, err)
	check(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), text, 0o600))
}

func absolute(t *testing.T, path string) string {
	t.Helper()
	path, err := filepath.Abs(path)
	check(t, err)
	return path
}

// TestComponents checks that every component can be added to an overlay. The API server must accept the resulting
// objects.
func TestComponents(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	kubectl(t, "create", "namespace", "gpuledger")
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	folders, err := filepath.Glob(manifests + "components/*")
	check(t, err)
	if len(folders) < 10 {
		t.Fatalf("found %d components, want at least 10", len(folders))
	}
	// These components cannot be added to the overlay for the GPU Operator.
	resources := map[string]string{
		"exporter": "manifests/base/reconciler", "web-config": "manifests/overlays/aks", "nfd": "manifests/overlays/aks", "gpu-nodes": "manifests/overlays/aks",
		"runtime-class": "manifests/overlays/standalone", "k0s": "manifests/overlays/standalone",
		"sidecar": "test/e2e/deploy/testdata/installers/static",
	}
	root, err := filepath.Abs("../../..")
	check(t, err)
	for _, folder := range folders {
		name := filepath.Base(folder)
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			resource := cmp.Or(resources[name], "manifests/overlays/operator")
			compose(t, dir, map[string]any{"resources": []string{filepath.Join(root, resource)}, "components": []string{folder}})
			with := kubectl(t, "kustomize", dir)
			if with == kubectl(t, "kustomize", filepath.Join(root, resource)) {
				t.Error("the component changes nothing")
			}
			taken(t, with)
		})
	}
}

// Kubernetes 1.34 and 1.35 serve the API version v1beta1.
func TestBeta(t *testing.T) {
	static := installers[0]
	apply(t, "-f", static.file())
	pod := fresh(&podsOf(t, static.namespace, static.daemonSet)[0])
	if out := kubectl(t, "kustomize", "testdata/v1beta1"); strings.Count(out, "apiVersion: admissionregistration.k8s.io/v1beta1\n") != 2 {
		t.Error("the policy and its binding are not v1beta1")
	}
	apply(t, "-k", "testdata/v1beta1")
	chooseAll(t)
	policyActs(t, static, pod)
}
