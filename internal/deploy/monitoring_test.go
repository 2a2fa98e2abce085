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

func TestRules(t *testing.T) {
	files, err := filepath.Glob(dashboards + "rules/*.yaml")
	check(t, err)
	if len(files) == 0 {
		t.Fatal("no files of rules found")
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
			t.Errorf("Rules(%q) = %s, want an error", text, out)
		}
	}
}

func TestDashboards(t *testing.T) {
	text, err := os.ReadFile(dashboards + "kustomization.yaml")
	check(t, err)
	var k struct {
		ConfigMapGenerator []struct {
			Name  string   `json:"name"`
			Files []string `json:"files"`
		} `json:"configMapGenerator"`
	}
	check(t, syaml.Unmarshal(text, &k))
	got := make(map[string][]string)
	for _, m := range k.ConfigMapGenerator {
		got[m.Name] = m.Files
	}
	files, err := filepath.Glob(dashboards + "*.json")
	check(t, err)
	want := make(map[string][]string)
	for _, file := range files {
		name := filepath.Base(file)
		want["gpuledger-dashboard-"+strings.TrimSuffix(name, ".json")] = []string{name}
		text, err := os.ReadFile(file)
		check(t, err)
		if !json.Valid(text) || len(text) > 1<<20 {
			t.Errorf("%s: %d bytes, want 1 MiB at most; valid JSON: %v", name, len(text), json.Valid(text))
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("ConfigMaps (-files +kustomization):\n%s", diff)
	}
}
