//go:build e2e

package deploy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestChartOwners checks the role for the kinds in reconciler.owners. It must allow only the verb get and be part of
// the aggregated role for owners. The chart must reject invalid kinds.
func TestChartOwners(t *testing.T) {
	rendered, err := template(t, valuesOf("standalone"), `--set-json=reconciler.owners=[{"group": "example.com", "resources": ["trainings", "sweeps"]}]`)
	check(t, err)
	all := objects(t, rendered)
	selector := list(at(all["ClusterRole<nil>gpuledger-reconciler-owners"], "aggregationRule", "clusterRoleSelectors"))
	role := all["ClusterRole<nil>gpuledger-reconciler-owners-values"]
	labels, _ := at(role, "metadata", "labels").(map[string]any)
	want := []any{map[string]any{"apiGroups": []any{"example.com"}, "resources": []any{"trainings", "sweeps"}, "verbs": []any{"get"}}}
	if diff := cmp.Diff(want, list(at(role, "rules"))); diff != "" {
		t.Errorf("rules (-want +got):\n%s", diff)
	}
	for key, value := range at(selector[0], "matchLabels").(map[string]any) {
		if labels[key] != value {
			t.Errorf("the label %s is %v, want %v", key, labels[key], value)
		}
	}
	for _, wrong := range []string{`["trainings"]`, `[{"group": "example.com"}]`, `[{"group": "example.com", "resources": ["trainings"], "verbs": ["*"]}]`} {
		if _, err := template(t, "--set-json=reconciler.owners="+wrong); err == nil || !strings.Contains(err.Error(), "/reconciler/owners/0") {
			t.Errorf("%s: %v, want an error that names the value", wrong, err)
		}
	}
}
