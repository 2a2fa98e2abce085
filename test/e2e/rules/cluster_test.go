//go:build e2e

package rules_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestRulesOfCentralRuler repeats the unit tests of the alerts with the label cluster on every series. A central ruler
// sees such series, and so does a Prometheus that adds the label to its targets. Each alert must fire as without the
// label, and must contain the label.
func TestRulesOfCentralRuler(t *testing.T) {
	if testing.Short() {
		t.Skip("long: run it with make e2e")
	}
	var files []string
	for _, file := range glob(t, filepath.Join(filepath.Dir(ruleTests), "alerts_*.yaml")) {
		text, err := os.ReadFile(file)
		check(t, err)
		name := filepath.Join(t.TempDir(), filepath.Base(file))
		check(t, os.WriteFile(name, []byte(inCluster(string(text), filepath.Dir(file))), 0o600))
		files = append(files, name)
	}
	promtool(t, append([]string{"test", "rules"}, files...)...)
}

var (
	ruleFile  = regexp.MustCompile(`\.\./(\w+\.yaml)`)
	input     = regexp.MustCompile(`series: '([\w:]+)(\{?)`)
	expected  = regexp.MustCompile(`exp_labels: \{`)
	dashboard = regexp.MustCompile(`dashboard: "([^"]*)"`)
)

// inCluster adds the label cluster to all series that do not have it yet.
func inCluster(text, folder string) string {
	text = ruleFile.ReplaceAllString(text, filepath.Join(filepath.Dir(folder), "$1"))
	lines := strings.SplitAfter(text, "\n")
	clusters := false // set if the preceding series or labels contain the label
	for i, line := range lines {
		if strings.Contains(line, "cluster:") || strings.Contains(line, "cluster=") && input.MatchString(line) {
			clusters = true
			continue
		}
		clusters = clusters && !input.MatchString(line) && !expected.MatchString(line)
		if clusters {
			continue
		}
		line = input.ReplaceAllStringFunc(line, func(s string) string {
			if strings.HasSuffix(s, "{") {
				return s + `cluster="east", `
			}
			return s + `{cluster="east"}`
		})
		line = expected.ReplaceAllString(line, "exp_labels: {cluster: east, ")
		lines[i] = dashboard.ReplaceAllStringFunc(line, func(s string) string {
			joint := "?"
			if strings.Contains(s, "?") {
				joint = "&"
			}
			return strings.TrimSuffix(s, `"`) + joint + `var-cluster=east"`
		})
	}
	return strings.Join(lines, "")
}
