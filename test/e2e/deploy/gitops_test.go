//go:build e2e

package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// These are the field managers of the GitOps controllers.
const (
	flux = "kustomize-controller"
	argo = "argocd-controller"
)

// TestFlux checks that Flux restores the list of nodes in the example after a change by kubectl. If Git does not
// contain the list, Flux must remove it, so that no node is selected.
func TestFlux(t *testing.T) {
	asked := device(t)
	inGit := fromExample(t, "flux/gpuledger.yaml")
	t.Cleanup(func() { remove(t, "-k", inGit) })
	fluxReconciles(t, inGit)
	wantCanary(t, asked)
	wantNoDrift(t, flux, inGit)

	kubectlSets(t, "*")
	eventually(t, "kubectl chose all nodes", func() bool { return hasSidecar(asked("gpu-003")) })
	fluxReconciles(t, inGit)
	wantCanary(t, asked)

	notInGit := overlay("operator")
	fluxReconciles(t, notInGit)
	eventually(t, "no node is chosen", func() bool { return !hasSidecar(asked("gpu-001")) })
	kubectlSets(t, "gpu-001")
	wantCanary(t, asked)
	fluxReconciles(t, notInGit)
	eventually(t, "the setting is removed, and no node is chosen", func() bool { return !hasSidecar(asked("gpu-001")) })
	if hasSidecar(asked("gpu-003")) {
		t.Error("the pod on gpu-003 has the container after the setting was removed")
	}
}

// TestArgoCD checks that Argo CD restores the list of nodes in the example after a change by kubectl. If kubectl sets a
// field that is not in Git, Argo CD must keep its value.
func TestArgoCD(t *testing.T) {
	asked := device(t)
	inGit := fromExample(t, "argocd/application.yaml")
	t.Cleanup(func() { remove(t, "-k", inGit) })
	reconcile(t, argo, inGit)
	wantCanary(t, asked)
	wantNoDrift(t, argo, inGit)

	kubectlSets(t, "*")
	eventually(t, "kubectl chose all nodes", func() bool { return hasSidecar(asked("gpu-003")) })
	reconcile(t, argo, inGit)
	wantCanary(t, asked)

	notInGit := overlay("operator")
	reconcile(t, argo, notInGit)
	eventually(t, "no node is chosen", func() bool { return !hasSidecar(asked("gpu-001")) })
	kubectlSets(t, "gpu-001")
	wantCanary(t, asked)
	reconcile(t, argo, notInGit)
	wantCanary(t, asked)
}

// device installs the GPU Operator's device plugin. The returned function creates the plugin's pod for a node in a dry
// run.
func device(t *testing.T) func(node string) *core.Pod {
	t.Helper()
	operator := installers[2]
	apply(t, "-f", operator.file())
	pod := fresh(&podsOf(t, operator.namespace, operator.daemonSet)[0])
	return func(node string) *core.Pod {
		t.Helper()
		asked, err := createAs(t, daemonSetController, operator.namespace, clone(pod, onNode(node)))
		check(t, err)
		return asked
	}
}

// The examples select only gpu-001.
func wantCanary(t *testing.T, asked func(node string) *core.Pod) {
	t.Helper()
	eventually(t, "only the canary is chosen", func() bool { return hasSidecar(asked("gpu-001")) && !hasSidecar(asked("gpu-003")) })
}

func wantNoDrift(t *testing.T, manager, folder string) {
	t.Helper()
	eventually(t, "kubectl diff finds no change", func() bool {
		_, err := try(t, "", "diff", "--server-side", "--force-conflicts", "--field-manager="+manager, "-k", folder)
		return err == nil
	})
}

func kubectlSets(t *testing.T, nodes string) {
	t.Helper()
	command := containing(t, documented(t, "### Canary", ""), "gpu-001")
	shell(t, "", strings.Replace(command, "gpu-001, gpu-002", nodes, 1))
}

// reconcile applies a folder as a GitOps controller does: with a server-side apply that overrides conflicts, and with
// the controller as field manager.
func reconcile(t *testing.T, manager, folder string) {
	t.Helper()
	kubectl(t, "apply", "--server-side", "--force-conflicts", "--field-manager="+manager, "-k", folder)
}

// fluxReconciles applies a folder like Flux's kustomize-controller. The controller first takes over the fields of all
// managers whose names begin with kubectl. Therefore the apply removes fields that are not in Git.
func fluxReconciles(t *testing.T, folder string) {
	t.Helper()
	configMaps := world.Client.CoreV1().ConfigMaps("gpuledger")
	if parameters, err := configMaps.Get(t.Context(), "gpuledger-sidecar", meta.GetOptions{}); err == nil {
		for i := range parameters.ManagedFields {
			entry := &parameters.ManagedFields[i]
			if strings.HasPrefix(entry.Manager, "kubectl") && entry.Subresource == "" {
				entry.Manager, entry.Operation = flux, meta.ManagedFieldsOperationApply
			}
		}
		fields, err := json.Marshal(parameters.ManagedFields)
		check(t, err)
		patch := []byte(`[{"op": "replace", "path": "/metadata/managedFields", "value": ` + string(fields) + `}]`)
		_, err = configMaps.Patch(t.Context(), parameters.Name, types.JSONPatchType, patch, meta.PatchOptions{FieldManager: flux})
		check(t, err)
	}
	reconcile(t, flux, folder)
}

// fromExample returns a folder with the kustomization in an example for a GitOps controller.
func fromExample(t *testing.T, file string) string {
	t.Helper()
	type build struct {
		Components []string
		Patches    []any
	}
	var example struct {
		Spec struct {
			build
			Path   string
			Source struct {
				Path      string
				Kustomize build
			}
		}
	}
	text, err := os.ReadFile(manifests + "examples/" + file)
	check(t, err)
	documents := strings.Split(string(text), "\n---\n") // the last file contains the kustomization
	check(t, yaml.Unmarshal([]byte(documents[len(documents)-1]), &example))
	from, path := example.Spec.build, example.Spec.Path
	if path == "" {
		from, path = example.Spec.Source.Kustomize, example.Spec.Source.Path
	}
	path = filepath.Join(manifests, "..", path)
	for i := range from.Components {
		from.Components[i] = filepath.Join(path, from.Components[i])
	}
	if len(from.Components) == 0 || len(from.Patches) == 0 {
		t.Fatalf("%s has %d components and %d patches, want at least one of each", file, len(from.Components), len(from.Patches))
	}
	folder := t.TempDir()
	compose(t, folder, map[string]any{"resources": []string{path}, "components": from.Components, "patches": from.Patches})
	return folder
}
