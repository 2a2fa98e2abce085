package deploy_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

func TestValues(t *testing.T) {
	got, err := deploy.Values([]byte(`# The mode.
# One of: "", fast.
mode: ""

# A section.
image:
  # The tag.
  tag: v1
  more:
    # A list.
    extraArgs: []
# A number.
replicas: 2
`))
	check(t, err)
	want := []deploy.Value{
		{Path: []string{"mode"}, Comment: "The mode.", Choices: []string{"", "fast"}, Default: "", Text: `""`},
		{Path: []string{"image"}, Comment: "A section."},
		{Path: []string{"image", "tag"}, Comment: "The tag.", Default: "v1", Text: "v1"},
		{Path: []string{"image", "more"}},
		{Path: []string{"image", "more", "extraArgs"}, Comment: "A list.", Default: []any{}, Text: "[]"},
		{Path: []string{"replicas"}, Comment: "A number.", Default: 2.0, Text: "2"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	schema, err := deploy.Schema(got)
	check(t, err)
	for _, part := range []string{`"enum": [`, `"type": "integer"`, `"type": "array"`, `"description": "The tag."`} {
		if !strings.Contains(string(schema), part) {
			t.Errorf("the schema lacks %s:\n%s", part, schema)
		}
	}
	if n := strings.Count(string(schema), `"additionalProperties": false`); n != 3 {
		t.Errorf("%d objects reject unknown keys, want 3:\n%s", n, schema)
	}
	if table := deploy.ValuesTable(got); !strings.Contains(table, "| `mode` | `\"\"` | The mode. One of: empty, `fast`. |\n") || strings.Contains(table, "section") {
		t.Errorf("table:\n%s", table)
	}
}

func TestInvalidValues(t *testing.T) {
	for _, text := range []string{"a: 1", "# Comment.\n- a", "# Comment.\n    a: 1", "# Comment.\na: null", "# Comment.\na: {"} {
		if values, err := deploy.Values([]byte(text)); err == nil {
			t.Errorf("no error for %q: %v", text, values)
		}
	}
}

// TestSchemaTypes checks that a list or map without a type in settingTypes is an error. The schema of a Kubernetes type
// must list its fields.
func TestSchemaTypes(t *testing.T) {
	for text, want := range map[string]string{"# A list.\nothers: []\n": "", "# A list.\ntolerations: []\n": `"tolerationSeconds"`} {
		values, err := deploy.Values([]byte(text))
		check(t, err)
		schema, err := deploy.Schema(values)
		if (err == nil) != (want != "") || !strings.Contains(string(schema), want) {
			t.Errorf("%q: error %v, want the schema with %s:\n%s", text, err, want, schema)
		}
	}
}

// TestQuantity compares the format of quantities with the Kubernetes parser, except for signs, which the format
// excludes.
func TestQuantity(t *testing.T) {
	values, err := deploy.Values([]byte("# Resources.\nresources: {}\n"))
	check(t, err)
	text, err := deploy.Schema(values)
	check(t, err)
	var schema struct {
		Definitions struct {
			ResourceRequirements struct {
				Properties struct {
					Limits struct {
						Additional struct{ Pattern string } `json:"additionalProperties"`
					}
				}
			}
		}
	}
	check(t, json.Unmarshal(text, &schema))
	pattern := regexp.MustCompile(schema.Definitions.ResourceRequirements.Properties.Limits.Additional.Pattern)
	for _, s := range []string{
		"1", "0", "128Mi", "1.5Gi", ".5", "5.", "10m", "100n", "3u", "2k", "2K", "1M", "1G", "1T", "1P", "1E", "1Ei", "1e3", "1E3", "1e-3", "12e+2",
		"", "128MB", "128 Mi", "1Kib", "1mi", "1.2.3", "1e", "0x10", "1,5",
	} {
		_, err := resource.ParseQuantity(s)
		if pattern.MatchString(s) != (err == nil) {
			t.Errorf("%q: the schema accepts it: %v, Kubernetes returns %v", s, pattern.MatchString(s), err)
		}
	}
}
