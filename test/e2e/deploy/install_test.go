//go:build e2e

package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const (
	byPolicy  = "policy"
	byWebhook = "webhook"
)

// Before Kubernetes 1.34, the API server supports only the webhook.
func served(t *testing.T) []string {
	t.Helper()
	groups, err := world.Client.Discovery().ServerPreferredResources()
	check(t, err)
	for _, g := range groups {
		for _, r := range g.APIResources {
			if r.Kind == "MutatingAdmissionPolicy" {
				return []string{byPolicy, byWebhook}
			}
		}
	}
	return []string{byWebhook}
}

// install applies an overlay and selects all nodes. The overlay's policy or webhook adds the container to the device
// plugins in the given namespaces.
func install(t *testing.T, by, name string, namespaces []string, components ...string) {
	t.Helper()
	parent := t.TempDir()
	first, folder := filepath.Join(parent, "namespaces"), filepath.Join(parent, "all")
	check(t, os.Mkdir(first, 0o700))
	check(t, os.Mkdir(folder, 0o700))
	patch := "- {op: replace, path: /spec/matchConstraints/namespaceSelector/matchExpressions/0/values, value: [" + strings.Join(namespaces, ", ") + "]}"
	text := "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\npatches:\n- target: {kind: MutatingAdmissionPolicy, name: gpuledger}\n  patch: |-\n    " + patch + "\n"
	check(t, os.WriteFile(filepath.Join(first, "kustomization.yaml"), []byte(text), 0o600))
	all := []string{first}
	for _, c := range components {
		all = append(all, manifests+"components/"+c)
	}
	if by == byWebhook {
		all = append(all, manifests+"components/webhook")
	}
	compose(t, folder, map[string]any{"resources": []string{overlay(name)}, "components": all})
	apply(t, "-k", folder)
	if by == byWebhook {
		serveWebhook(t)
		trusted(t)
	}
	chooseAll(t)
	forceful(t)
}
