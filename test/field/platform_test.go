package field_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/podmapper"
)

type kustomization struct {
	Patches []struct{ Patch string }
}

// A daemonSet contains the fields that select nodes.
type daemonSet struct {
	Spec struct {
		Template struct {
			Spec struct {
				Affinity struct {
					NodeAffinity struct {
						Required struct {
							NodeSelectorTerms []struct{ MatchExpressions []expression }
						} `json:"requiredDuringSchedulingIgnoredDuringExecution"`
					}
				}
			}
		}
	}
}

type expression struct {
	Key, Operator string
	Values        []string
}

func (e expression) matches(labels map[string]string) bool {
	value, present := labels[e.Key]
	switch e.Operator {
	case "Exists":
		return present
	case "In":
		return present && slices.Contains(e.Values, value)
	case "NotIn":
		return !slices.Contains(e.Values, value)
	}
	return false
}

// terms returns the node selector terms of the DaemonSets in a folder of manifests. A node must match any one of them.
func terms(t *testing.T, folder string) (all [][]expression) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../../manifests", folder, "kustomization.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var k kustomization
	if err := yaml.Unmarshal(data, &k); err != nil {
		t.Fatal(err)
	}
	for _, p := range k.Patches {
		var d daemonSet
		if strings.HasPrefix(p.Patch, "-") { // a JSON patch is a list of operations
			continue
		}
		if err := yaml.Unmarshal([]byte(p.Patch), &d); err != nil {
			t.Fatal(err)
		}
		for _, term := range d.Spec.Template.Spec.Affinity.NodeAffinity.Required.NodeSelectorTerms {
			all = append(all, term.MatchExpressions)
		}
	}
	return all
}

// selectNode reports whether an overlay or component runs an exporter on a node. The input contains the folder of the
// overlay or component, and the labels of the node.
func selectNode(t *testing.T, input string) string {
	t.Helper()
	fields := strings.Fields(input)
	labels := make(map[string]string)
	for _, field := range fields[1:] {
		name, value, _ := strings.Cut(field, "=")
		labels[name] = value
	}
	if slices.ContainsFunc(terms(t, fields[0]), func(term []expression) bool {
		return !slices.ContainsFunc(term, func(e expression) bool { return !e.matches(labels) })
	}) {
		return "runs"
	}
	return ""
}

func isGPU(_ *testing.T, resource string) string {
	if regexp.MustCompile(podmapper.DefaultResources).MatchString(resource) {
		return "GPU"
	}
	return ""
}

// TestLabelsHaveCases checks that the cases cover each label that selects nodes.
func TestLabelsHaveCases(t *testing.T) {
	var cases strings.Builder
	for _, file := range glob(t, "cases/*.txt") {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		cases.Write(data)
	}
	found := 0
	for _, file := range slices.Concat(glob(t, "../../manifests/overlays/*/kustomization.yaml"), glob(t, "../../manifests/components/*/kustomization.yaml")) {
		folder, err := filepath.Rel("../../manifests", filepath.Dir(file))
		if err != nil {
			t.Fatal(err)
		}
		for _, term := range terms(t, folder) {
			for _, e := range term {
				found++
				if !strings.Contains(cases.String(), " "+e.Key+"=") {
					t.Errorf("%s: no case contains the label %s", folder, e.Key)
				}
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d labels", found)
	}
}

func glob(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%d files %s, error %v", len(files), pattern, err)
	}
	return files
}
