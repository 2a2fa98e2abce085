//go:build e2e

package kubelet_test

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/markdown"
)

const version = "v0.1.0"

// TestInstall installs the files of a release on a cluster's node with the unchanged documented commands, and removes
// them. The pods pull the release's images and read the fake driver.
func TestInstall(t *testing.T) {
	crane := filepath.Join(os.Getenv("GPULEDGER_E2E_CRANE"), "crane")
	serveRelease(t, os.Getenv(insideEnv), crane)
	n := startCluster(t)
	n.startDriver(t, nil)
	t.Setenv("KUBECONFIG", n.path("kubeconfig"))
	t.Setenv("HOME", t.TempDir())
	t.Setenv("PATH", strings.Join([]string{
		os.Getenv("GPULEDGER_E2E_KUBECTL"), os.Getenv("GPULEDGER_E2E_HELM"), filepath.Dir(crane), os.Getenv("PATH"),
	}, ":"))
	publish(t)
	checkDownloads(t)
	run(t, "", "kubectl apply --filename testdata/training.yaml")

	t.Run("Helm", testHelm)
	t.Run("manifest", testManifest)
	t.Run("sidecar", testSidecar)
}

func release(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs(os.Getenv("GPULEDGER_E2E_RELEASE"))
	check(t, err)
	return folder
}

// publish pushes the images and the chart of a release to the registries, like the release workflow. It pushes one
// image with the commands in docs/packages.md.
func publish(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	run(t, folder, "ln -s "+release(t)+"/* .")
	run(t, folder, section(t, "docs/packages.md", "## Images without a registry")...)
	for _, image := range []string{"gpuledger", "gpuledger-reconciler", "gpuledger-archive"} {
		layout := t.TempDir()
		run(t, folder, fmt.Sprintf("tar -xf %s-%s.oci.tar -C %s; crane push %[3]s ghcr.io/gpuledger/%[1]s:%[4]s", image, version[1:], layout, version))
	}
	run(t, folder, "helm push gpuledger-"+version[1:]+".tgz oci://ghcr.io/gpuledger/charts")
}

func checkDownloads(t *testing.T) {
	t.Helper()
	folder := t.TempDir()
	downloads := slices.DeleteFunc(section(t, "docs/packages.md", "## Install"), func(c string) bool { return !strings.HasPrefix(c, "curl ") })
	if len(downloads) != 3 {
		t.Fatalf("docs/packages.md has %d downloads, want 3: %q", len(downloads), downloads)
	}
	run(t, folder, append(downloads, section(t, "docs/packages.md", "## Verify")[:2]...)...)
}

// testHelm installs the chart with the first command in the README. It tests and removes the chart with the commands in
// the chart's README.
func testHelm(t *testing.T) {
	page := read(t, "charts/gpuledger/README.md")
	steps := markdown.Commands(page)
	run(t, "", quoted(t, read(t, "README.md"), "helm install"))
	ready(t, "daemonset/gpuledger", "deployment/gpuledger-reconciler")
	run(t, "", quoted(t, page, "helm test"))
	checkInstalled(t)
	run(t, "", steps[len(steps)-2:]...)
}

func testManifest(t *testing.T) {
	apply := quoted(t, read(t, "README.md"), "kubectl apply")
	run(t, "", apply)
	ready(t, "daemonset/gpuledger", "deployment/gpuledger-reconciler")
	checkInstalled(t)
	run(t, "", strings.Replace(apply, "kubectl apply --server-side", "kubectl delete", 1))
}

func testSidecar(t *testing.T) {
	run(t, "", "kubectl apply --filename testdata/plugin.yaml")
	run(t, "", section(t, "docs/install.md", "## Install")...)
	ready(t, "deployment/gpuledger-reconciler")
	checkInstalled(t)
	status := section(t, "docs/install.md", "### Looking at a node")[0]
	t.Logf("%s", run(t, "", "N=gpu-operator POD=daemonset/nvidia-device-plugin-daemonset", strings.ReplaceAll(status, "POD", `"$POD"`)))
	run(t, "", section(t, "docs/install.md", "## Uninstall")...)
	if books, _ := os.ReadDir(stateFolder); len(books) > 0 {
		t.Errorf("%d files are left in %s, want none", len(books), stateFolder)
	}
}

func ready(t *testing.T, objects ...string) {
	t.Helper()
	for _, o := range objects {
		run(t, "", "kubectl --namespace gpuledger rollout status --timeout=3m "+o)
	}
}

func checkInstalled(t *testing.T) {
	t.Helper()
	address := strings.TrimSpace(run(t, "", `kubectl get pods --all-namespaces --output jsonpath='{range .items[*]}{.status.podIP} {.spec.containers[*].name}{"\n"}{end}' | sed -n 's/ .*\bgpuledger\b.*//p'`))
	var last page
	eventually(t, "the exporter charges the pod that holds a GPU", func() bool {
		response, err := http.Get("http://" + address + ":9840/metrics")
		if err != nil {
			return false
		}
		defer response.Body.Close()
		last, err = exposition.Parse(response.Body)
		return err == nil && last.Sum("gpuledger_container_energy_joules_total", map[string]string{"pod": "training"}) > 0
	})
	checkBalance(t, last)
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../..", name))
	check(t, err)
	return string(text)
}

func section(t *testing.T, name, heading string) []string {
	t.Helper()
	text, err := markdown.Section(read(t, name), heading)
	check(t, err)
	return markdown.Commands(text)
}

func quoted(t *testing.T, text, words string) string {
	t.Helper()
	found := regexp.MustCompile("`(" + words + "[^`]*)`").FindStringSubmatch(text)
	if found == nil {
		t.Fatalf("no command %q", words)
	}
	return found[1]
}

// run returns the output of the commands. If a command fails, the error shows the pods of the cluster.
func run(t *testing.T, folder string, commands ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", strings.Join(commands, "\n"))
	cmd.Dir = folder
	out, err := cmd.CombinedOutput()
	if err != nil {
		logs, _ := output("bash", "-c", "kubectl get pods --all-namespaces --output wide; kubectl --namespace gpuledger logs --prefix --tail 20 --selector app.kubernetes.io/part-of=gpuledger")
		t.Fatalf("%s: %v\n%s\n%s", strings.Join(commands, "\n"), err, out, logs)
	}
	return string(out)
}
