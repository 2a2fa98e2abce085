//go:build e2e

package deploy_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/markdown"
)

const (
	// helmEnv is the variable with the folder of the helm that tools/servers built.
	helmEnv = "GPULEDGER_E2E_HELM"
	// chart is the output folder of make chart.
	chart = "../../../bin/chart/gpuledger"
	// chartSource is the folder of the chart with its README and the values of tests.
	chartSource = "../../../charts/gpuledger/"
)

// published is the chart's address in its README, which does not exist before the first release.
var published = regexp.MustCompile(`oci://ghcr\.io/gpuledger/charts/gpuledger --version \S+`)

// TestHelmReadme runs the commands of the chart's README from installation to removal. The address
// of the chart is replaced by a path.
func TestHelmReadme(t *testing.T) {
	text, err := os.ReadFile(chartSource + "README.md")
	check(t, err)
	steps := markdown.Commands(published.ReplaceAllString(string(text), absolute(t, chart)))
	if len(steps) != 5 {
		t.Fatalf("%d commands in the README, want 5: %q", len(steps), steps)
	}
	before, folder := settled(t), t.TempDir()
	t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
	shell(t, folder, steps[0])
	installed := versions(t)
	if len(installed) < 15 {
		t.Errorf("%d objects after the installation, want at least 15", len(installed))
	}
	shell(t, folder, steps[1], steps[2])
	upgraded := versions(t)
	if len(upgraded) < len(installed)+10 {
		t.Errorf("%d objects after the upgrade, want at least ten more than %d", len(upgraded), len(installed))
	}
	for name, version := range installed {
		if upgraded[name] != version {
			t.Errorf("the upgrade changed %s", name)
		}
	}
	shell(t, folder, steps[3], steps[4])
	nothingLeft(t, before)
}

// TestHelm checks for some files of values that a second apply changes no object, that a server-side
// diff, as in Argo CD and Flux, finds no change, that another image changes the objects with
// it only, and that no object is left at the end.
func TestHelm(t *testing.T) {
	withImage := map[string][]string{
		"everything":         {"DaemonSet gpuledger", "DaemonSet gpuledger-prepull"},
		"sidecar-everything": {"ConfigMap gpuledger-sidecar", "DaemonSet gpuledger-prepull"},
		"openshift":          {"DaemonSet gpuledger"},
	}
	for values, objects := range withImage {
		t.Run(values, func(t *testing.T) {
			before := settled(t)
			t.Cleanup(func() { remove(t, "namespace", "gpuledger") })
			arguments := "gpuledger " + absolute(t, chart) + " --namespace=gpuledger --values=" + absolute(t, chartSource+"ci/"+values+"-values.yaml")
			upgrade := "helm upgrade --install --create-namespace " + arguments
			shell(t, "", upgrade)
			first := versions(t)
			shell(t, "", upgrade)
			wantChanged(t, first, versions(t), nil)
			rendered := filepath.Join(t.TempDir(), "rendered.yaml")
			shell(t, "", "helm template --skip-tests --kube-version=1.37.0 "+arguments+" >"+rendered)
			for _, manager := range []string{flux, argo} {
				if out, err := try(t, "", "diff", "--server-side", "--force-conflicts", "--field-manager="+manager, "--filename="+rendered); err != nil {
					t.Errorf("%s: %v\n%s", manager, err, out)
				}
			}
			shell(t, "", upgrade+" --set=image.tag=v9")
			wantChanged(t, first, versions(t), objects)
			if strings.HasPrefix(values, "sidecar") {
				shell(t, "", "kubectl --namespace gpuledger delete configmap gpuledger-sidecar")
			}
			shell(t, "", "helm uninstall gpuledger --namespace gpuledger", "kubectl delete namespace gpuledger")
			nothingLeft(t, before)
		})
	}
}

// settled returns the objects of the cluster when the controllers that have just started have
// created their accounts.
func settled(t *testing.T) []object {
	t.Helper()
	var objects []object
	eventually(t, "no object is added for a second", func() bool {
		before := len(objects)
		<-time.After(time.Second)
		objects = everything(t)
		return len(objects) == before
	})
	return objects
}

// versions returns the generation or, for objects without one, the resource version of gpuledger's
// objects by name. Controllers change the status but not the generation.
func versions(t *testing.T) map[string]string {
	t.Helper()
	out := shell(t, "", `kubectl get --all-namespaces --ignore-not-found --selector=app.kubernetes.io/managed-by=Helm `+
		`"$(kubectl api-resources --verbs=list --output=name | paste -sd, -)" `+
		`--output=go-template='{{range .items}}{{.kind}} {{.metadata.name}} {{or .metadata.generation .metadata.resourceVersion}}{{"\n"}}{{end}}'`)
	found := make(map[string]string)
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		found[fields[0]+" "+fields[1]] = fields[2]
	}
	return found
}

// wantChanged checks which objects changed, by kind and name.
func wantChanged(t *testing.T, before, after map[string]string, want []string) {
	t.Helper()
	var got []string
	for _, object := range slices.Sorted(maps.Keys(after)) {
		if before[object] != after[object] {
			got = append(got, object)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changed objects (-want +got):\n%s", diff)
	}
}
