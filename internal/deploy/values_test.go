package deploy_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
    args: []
# A number.
replicas: 2
`))
	check(t, err)
	want := []deploy.Value{
		{Path: []string{"mode"}, Comment: "The mode.", Choices: []string{"", "fast"}, Default: "", Text: `""`},
		{Path: []string{"image"}, Comment: "A section."},
		{Path: []string{"image", "tag"}, Comment: "The tag.", Default: "v1", Text: "v1"},
		{Path: []string{"image", "more"}},
		{Path: []string{"image", "more", "args"}, Comment: "A list.", Default: []any{}, Text: "[]"},
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
