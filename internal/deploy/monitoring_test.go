package deploy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	syaml "sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/deploy"
)

const dashboards = "../../dashboards/"

// TestRules: the component has an object for each file of rules, which says what the
// file says.
func TestRules(t *testing.T) {
	files, err := filepath.Glob(dashboards + "rules/*.yaml")
	check(t, err)
	if len(files) == 0 {
		t.Fatal("no rules")
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		var want any
		check(t, syaml.Unmarshal(text, &want))
		name := filepath.Base(file)
		text, err = os.ReadFile(manifests + "components/rules/" + name)
		check(t, err)
		var got struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
			Spec     any
		}
		check(t, syaml.Unmarshal(text, &got))
		if diff := cmp.Diff(want, got.Spec); diff != "" {
			t.Errorf("%s (-file +object):\n%s", name, diff)
		}
		if want := "gpuledger-" + strings.TrimSuffix(name, ".yaml"); got.Kind != "PrometheusRule" || got.Metadata.Name != want || got.Metadata.Namespace != "gpuledger" {
			t.Errorf("%s is %s %+v, want %s", name, got.Kind, got.Metadata, want)
		}
	}
}

func TestRulesRefused(t *testing.T) {
	for _, text := range []string{"", "groups: []\n", "groups: [{name: a}]\nnamespace: b\n", "groups: {", "spec: {groups: [{name: a}]}\n"} {
		if out, err := deploy.Rules("a", []byte(text)); err == nil {
			t.Errorf("%q makes %s", text, out)
		}
	}
}

// TestDashboard: a dashboard comes out of its ConfigMap as it went in, and fits into one.
func TestDashboard(t *testing.T) {
	files, err := filepath.Glob(dashboards + "*.json")
	check(t, err)
	texts := map[string][]byte{"sample": []byte("{\n  \"title\": \"a: b # c\",\n\t\"panels\": []\n}\n")}
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		texts[strings.TrimSuffix(filepath.Base(file), ".json")] = text
	}
	for name, want := range texts {
		if !json.Valid(want) || len(want) > 1<<20 {
			t.Errorf("%s: %d bytes, valid JSON: %v", name, len(want), json.Valid(want))
		}
		text, err := deploy.YAML(deploy.Dashboard(name, want))
		check(t, err)
		var got struct {
			Metadata struct{ Labels map[string]string }
			Data     map[string]string
		}
		check(t, syaml.Unmarshal(text, &got))
		if got.Data[name+".json"] != string(want) || got.Metadata.Labels["grafana_dashboard"] != "1" {
			t.Errorf("%s became %+v", name, got)
		}
	}
}
