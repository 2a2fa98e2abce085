//go:build e2e

package deploy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestPostRenderer checks the documented Helm commands. With the device plugin's chart, they must create the container
// of the kustomize patch. With another chart, Helm must fail.
func TestPostRenderer(t *testing.T) {
	i := installers[1]
	if i.name != "helm" {
		t.Fatalf("the second installer is %s, want helm", i.name)
	}
	apply(t, "-k", "testdata/patched/helm")
	patched := podsOf(t, i.namespace, i.daemonSet)[0]
	remove(t, "-k", "testdata/patched/helm")

	plugin, err := os.ReadFile(i.file())
	check(t, err)
	chart := func(plugin string) (folder string) {
		folder = t.TempDir()
		check(t, os.Mkdir(filepath.Join(folder, "templates"), 0o755))
		check(t, os.WriteFile(filepath.Join(folder, "Chart.yaml"), []byte("apiVersion: v2\nname: nvidia-device-plugin\nversion: 0.20.0\n"), 0o644))
		check(t, os.WriteFile(filepath.Join(folder, "templates", "plugin.yaml"), []byte(plugin), 0o644))
		check(t, os.WriteFile(filepath.Join(folder, "yours.yaml"), []byte("{}\n"), 0o644))
		return folder
	}
	commands := documented(t, "## Without an admission policy", "")
	shell(t, "../../..", containing(t, commands, "helm plugin install"))
	t.Cleanup(func() { shell(t, "", "helm plugin uninstall gpuledger") })
	install := strings.Replace(containing(t, commands, "--post-renderer"), "nvdp/nvidia-device-plugin --version 0.20.0", ".", 1)
	shell(t, chart(string(plugin)), install)
	t.Cleanup(func() { shell(t, "", "helm uninstall nvdp --namespace "+i.namespace) })
	for _, pod := range podsOf(t, i.namespace, i.daemonSet) {
		checkPod(t, &pod, i.plugin)
		if diff := cmp.Diff(container(&patched), container(&pod)); diff != "" {
			t.Errorf("container (-by kustomize +by Helm):\n%s", diff)
		}
		if diff := cmp.Diff(ours(&patched), ours(&pod)); diff != "" {
			t.Errorf("volumes (-by kustomize +by Helm):\n%s", diff)
		}
	}
	for _, pod := range podsOf(t, i.namespace, "nvdp-nvidia-device-plugin-gpu-feature-discovery") {
		if hasSidecar(&pod) {
			t.Error("the pod of feature discovery has the container")
		}
	}

	other := strings.ReplaceAll(string(plugin), "nvdp-nvidia-device-plugin", "other")
	script, err := filepath.Abs(manifests + "examples/post-renderer/post-renderer.sh")
	check(t, err)
	if out, err := tryShell(t, chart(other), script+" < templates/plugin.yaml"); err == nil || !strings.Contains(out, "contains no DaemonSet of a device plugin") {
		t.Errorf("install a chart without a device plugin: %v\n%s", err, out)
	}
	if out := shell(t, chart(string(plugin)), script+" < templates/plugin.yaml"); strings.Count(out, "name: gpuledger\n") == 0 {
		t.Errorf("the script, as Helm 3 runs it, adds no container:\n%s", out)
	}
}
