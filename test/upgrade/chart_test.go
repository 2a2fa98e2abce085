//go:build e2e

package upgrade

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

const helmEnv = "GPULEDGER_E2E_HELM"

func template(t *testing.T, chart, values string) (string, error) {
	t.Helper()
	folder := os.Getenv(helmEnv)
	if folder == "" {
		t.Fatalf("%s is not set: run the tests with make test-upgrade", helmEnv)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(folder, "helm"), "template", "gpuledger", chart,
		"--namespace=gpuledger", "--skip-tests", "--kube-version=1.37.0", "--values="+values)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}

// fixed contains immutable fields. If such a field changes, the upgrade of a release fails.
var fixed = map[string][][]string{
	"Deployment":         {{"spec", "selector"}},
	"DaemonSet":          {{"spec", "selector"}},
	"ClusterRoleBinding": {{"roleRef"}},
	"RoleBinding":        {{"roleRef"}},
}

// at returns nil if there is no field at the path.
func at(value any, path ...string) any {
	for _, key := range path {
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}

func rendered(t *testing.T, text string) map[string]map[string]any {
	t.Helper()
	all := make(map[string]map[string]any)
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		var value map[string]any
		check(t, yaml.Unmarshal([]byte(document), &value))
		if len(value) == 0 {
			continue
		}
		name := fmt.Sprint(value["kind"], " ", at(value, "metadata", "name"))
		if namespace := at(value, "metadata", "namespace"); namespace != nil {
			name += fmt.Sprint(" in ", namespace)
		}
		all[name] = value
	}
	return all
}

// changed returns the objects that the new chart lacks, and the changes of immutable fields.
func changed(before, after map[string]map[string]any) (all []string) {
	for name, was := range before {
		is, ok := after[name]
		if !ok {
			all = append(all, name+" is removed")
			continue
		}
		for _, path := range fixed[fmt.Sprint(was["kind"])] {
			if a, b := fmt.Sprint(at(was, path...)), fmt.Sprint(at(is, path...)); a != b {
				all = append(all, fmt.Sprintf("%s: %s changes from %s to %s", name, strings.Join(path, "."), a, b))
			}
		}
	}
	return all
}

// TestUpgradeChart checks that this chart accepts the values of the earlier chart, and that its objects can replace the
// earlier objects.
func TestUpgradeChart(t *testing.T) {
	previous := Previous(t)
	files, err := filepath.Glob(previous.Source("charts", "gpuledger", "ci", "*-values.yaml"))
	check(t, err)
	if len(files) < 15 {
		t.Fatalf("%d files of values", len(files))
	}
	var refused, replaced []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), "-values.yaml")
		before, err := template(t, previous.Source("bin", "chart", "gpuledger"), file)
		check(t, err)
		after, err := template(t, "../../bin/chart/gpuledger", file)
		if err != nil {
			t.Logf("%s: %v", name, err)
			refused = append(refused, name)
			continue
		}
		earlier := rendered(t, before)
		if len(earlier) < 5 {
			t.Fatalf("%s: %d objects", name, len(earlier))
		}
		for _, change := range changed(earlier, rendered(t, after)) {
			replaced = append(replaced, name+": "+change)
		}
	}
	Compare(t, "values", refused)
	Compare(t, "objects", replaced)
	wrong := filepath.Join(t.TempDir(), "values.yaml")
	check(t, os.WriteFile(wrong, []byte("noSuchValue: true\n"), 0o600))
	if _, err := template(t, "../../bin/chart/gpuledger", wrong); err == nil || !slices.Contains(strings.Fields(strings.ReplaceAll(err.Error(), "'", " ")), "noSuchValue") {
		t.Errorf("an unknown value: %v", err)
	}
}
