//go:build e2e

package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

const (
	chartSource = "../../charts/gpuledger/"
	// chart is the folder into which make chart writes the chart.
	chart   = "../../bin/chart/gpuledger"
	helmEnv = "GPULEDGER_E2E_HELM"
)

func helm(t *testing.T, args ...string) (string, error) {
	t.Helper()
	folder := os.Getenv(helmEnv)
	if folder == "" {
		t.Fatalf("%s is not set: run the tests with make rendered", helmEnv)
	}
	var stderr strings.Builder
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "helm"), args...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%w: %s", err, stderr.String())
	}
	return string(out), err
}

// template renders the chart in the namespace gpuledger. Helm 3 assumes Kubernetes 1.20 if it was built without its
// build scripts, so template sets the Kubernetes version.
func template(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return helm(t, append([]string{"template", "gpuledger", chart, "--namespace=gpuledger", "--skip-tests", "--kube-version=1.37.0"}, args...)...)
}

func valuesOf(name string) string { return "--values=" + chartSource + "ci/" + name + "-values.yaml" }

// TestChart checks that the chart renders the same objects as the overlays and as the kustomizations in
// charts/gpuledger/ci. The chart's values for each kustomization are in the file beside it.
func TestChart(t *testing.T) {
	names, err := filepath.Glob(chartSource + "ci/*-values.yaml")
	check(t, err)
	if len(names) < 15 {
		t.Fatalf("%d files of values, want at least 15", len(names))
	}
	for _, file := range names {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			overlay, err := os.ReadFile("../../bin/chart/ci/" + name + ".yaml")
			if os.IsNotExist(err) {
				overlay, err = os.ReadFile(rendering + name + ".yaml")
			}
			check(t, err)
			rendered, err := template(t, valuesOf(name))
			check(t, err)
			if diff := cmp.Diff(objects(t, string(overlay)), objects(t, rendered)); diff != "" {
				t.Errorf("objects (-overlay +chart):\n%s", diff)
			}
		})
	}
}

var hashOfArchive = regexp.MustCompile(`(gpuledger-archive)-[0-9a-z]{10}\b`)

// objects returns the objects in a YAML stream by kind, namespace and name. It removes the expected differences between
// the chart and the overlays: Helm creates the namespace and adds labels to objects. In the overlays, the name of the
// archive's ConfigMap contains a hash. In the chart, the archive's pods have an annotation with a hash instead.
func objects(t *testing.T, text string) map[string]any {
	t.Helper()
	all := make(map[string]any)
	for document := range strings.SplitSeq("\n"+hashOfArchive.ReplaceAllString(text, "$1"), "\n---\n") {
		var object map[string]any
		check(t, yaml.Unmarshal([]byte(document), &object))
		if len(object) == 0 || object["kind"] == "Namespace" {
			continue
		}
		labels, _ := at(object, "metadata", "labels").(map[string]any)
		delete(labels, "helm.sh/chart")
		delete(labels, "app.kubernetes.io/managed-by")
		if pod, _ := at(object, "spec", "template", "metadata").(map[string]any); object["kind"] == "Deployment" {
			annotations, _ := pod["annotations"].(map[string]any)
			if delete(annotations, "checksum/config"); len(annotations) == 0 {
				delete(pod, "annotations")
			}
		}
		key := fmt.Sprint(object["kind"], at(object, "metadata", "namespace"), at(object, "metadata", "name"))
		if all[key] != nil {
			t.Errorf("%s is rendered twice", key)
		}
		all[key] = object
	}
	return all
}

func TestChartLint(t *testing.T) {
	if out, err := helm(t, "lint", "--strict", chart); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestChartNamespace checks the chart in another namespace. No object may be in the namespace gpuledger or refer to it.
func TestChartNamespace(t *testing.T) {
	for _, base := range []string{"everything", "sidecar-everything"} {
		text, err := template(t, valuesOf(base), "--set=dashboards.enabled=false", "--set=prometheusRule.enabled=false", "--set=namespaceOverride=elsewhere")
		check(t, err)
		for line := range strings.Lines(text) {
			for _, part := range []string{"namespace: gpuledger", "serviceaccount:gpuledger:", "gpuledger/gpuledger", "gpuledger-archive.gpuledger", "- gpuledger\n"} {
				if strings.Contains(line, part) && !strings.Contains(line, "image: ") {
					t.Errorf("%s: %s", base, strings.TrimSpace(line))
				}
			}
		}
	}
}
