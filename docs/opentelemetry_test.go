package docs_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// TestOpenTelemetry checks that the Collector's receiver has the scrape jobs of machine.md. The Collector expands
// variables, so the jobs must not contain any.
func TestOpenTelemetry(t *testing.T) {
	type prometheus struct {
		Jobs any `json:"scrape_configs"`
	}
	var collector struct {
		Receivers map[string]struct{ Config prometheus }
	}
	text := yamlBlock(t, "opentelemetry.md")
	check(t, yaml.UnmarshalStrict([]byte(text), &collector))
	var machine prometheus
	check(t, yaml.UnmarshalStrict([]byte(yamlBlock(t, "machine.md")), &machine))
	if diff := cmp.Diff(machine, collector.Receivers["prometheus"].Config); diff != "" || machine.Jobs == nil {
		t.Errorf("jobs (-machine.md +opentelemetry.md):\n%s", diff)
	}
	if strings.Contains(text, "$") {
		t.Error("a single $ is a variable for the Collector")
	}
}

func yamlBlock(t *testing.T, page string) string {
	t.Helper()
	parts := strings.Split(read(t, page), "```yaml\n")
	if len(parts) != 2 {
		t.Fatalf("%s has %d YAML blocks, want one", page, len(parts)-1)
	}
	text, _, _ := strings.Cut(parts[1], "```")
	return text
}
