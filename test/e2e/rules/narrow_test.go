//go:build e2e

package rules_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"go.yaml.in/yaml/v2"
)

// unitTests is in promtool's format. Values are strings, because 0x30 is a number in YAML but means thirty-one zeros in
// promtool.
type unitTests struct {
	Rules    []string   `yaml:"rule_files"`
	Interval string     `yaml:"evaluation_interval"`
	Tests    []unitTest `yaml:"tests"`
}

type unitTest struct {
	Name     string              `yaml:"name"`
	Interval string              `yaml:"interval"`
	Series   []map[string]string `yaml:"input_series"`
	Alerts   []alertTest         `yaml:"alert_rule_test,omitempty"`
	Queries  []any               `yaml:"promql_expr_test,omitempty"`
}

type alertTest struct {
	Name  string                         `yaml:"alertname"`
	At    string                         `yaml:"eval_time"`
	Fires []map[string]map[string]string `yaml:"exp_alerts"`
}

type rulesFile struct {
	Groups []struct {
		Name     string           `yaml:"name"`
		Interval string           `yaml:"interval,omitempty"`
		Rules    []map[string]any `yaml:"rules"`
	} `yaml:"groups"`
}

// narrowed splits a file with unit tests into one file per test. Each file contains all recording rules, but only the
// alerts in its test. This saves time, because promtool evaluates every rule at every step.
func narrowed(t *testing.T, file string) []string {
	t.Helper()
	all := decoded[unitTests](t, file)
	files := make([]string, 0, len(all.Tests))
	for i, test := range all.Tests {
		named := make(map[string]bool)
		for _, a := range test.Alerts {
			named[a.Name] = false
		}
		one := unitTests{Interval: all.Interval, Tests: []unitTest{test}}
		for _, rules := range all.Rules {
			part := decoded[rulesFile](t, filepath.Join(filepath.Dir(file), rules))
			part.keep(named)
			one.Rules = append(one.Rules, encoded(t, filepath.Base(rules), part))
		}
		for name, is := range named {
			if !is {
				t.Errorf("%s: test %d names alert %s, which does not exist", file, i+1, name)
			}
		}
		files = append(files, encoded(t, fmt.Sprintf("%d-%s", i+1, filepath.Base(file)), one))
	}
	return files
}

// keep removes the alerts whose names are not in named. It sets named to true for each alert that remains.
func (f *rulesFile) keep(named map[string]bool) {
	for i, group := range f.Groups {
		var kept []map[string]any
		for _, rule := range group.Rules {
			alert, is := rule["alert"].(string)
			if _, compared := named[alert]; is && !compared {
				continue
			}
			if is {
				named[alert] = true
			}
			kept = append(kept, rule)
		}
		f.Groups[i].Rules = kept
	}
}

func decoded[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(file)
	check(t, err)
	var value T
	if err := yaml.UnmarshalStrict(text, &value); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return value
}

func encoded(t *testing.T, name string, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	check(t, err)
	path := filepath.Join(t.TempDir(), name)
	check(t, os.WriteFile(path, text, 0o600))
	return path
}
