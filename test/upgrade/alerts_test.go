//go:build e2e

package upgrade

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// hours is the time after which alerts are compared.
const hours = 3

// anAlert matches the name of a firing alert in promtool's report.
var anAlert = regexp.MustCompile(`(?m)^\s*alertname: (\w+)`)

// alerts returns the differences between the alerts that fire for the pages of both versions, by the rules of each.
func alerts(t *testing.T, texts [2]string) (all []string) {
	t.Helper()
	for rules, folder := range map[string]string{"these rules": "../../dashboards/rules", "earlier rules": Previous(t).Source("dashboards", "rules")} {
		earlier, now := firing(t, folder, texts[0]), firing(t, folder, texts[1])
		for _, change := range slices.Concat(minus("only with the earlier page: ", earlier, now), minus("only with this page: ", now, earlier)) {
			all = append(all, rules+change)
		}
		t.Logf("%s: %v fire", rules, now)
	}
	return all
}

// names are the names of the alerts in a folder of rules.
func names(t *testing.T, files []string) (all []string) {
	t.Helper()
	for _, file := range files {
		text, err := os.ReadFile(file)
		check(t, err)
		for _, match := range regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllSubmatch(text, -1) {
			all = append(all, string(match[1]))
		}
	}
	return all
}

// firing returns the alerts that fire when a node serves a page for hours.
func firing(t *testing.T, folder, text string) []string {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	files, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	check(t, err)
	for i := range files {
		files[i], err = filepath.Abs(files[i])
		check(t, err)
	}
	var cases []map[string]any
	for _, name := range names(t, files) {
		cases = append(cases, map[string]any{"eval_time": fmt.Sprint(hours, "h"), "alertname": name, "exp_alerts": []any{}})
	}
	if len(cases) < 40 {
		t.Fatalf("%s has %d alerts", folder, len(cases))
	}
	document, err := yaml.Marshal(map[string]any{
		"rule_files": files, "evaluation_interval": "5m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input(t, text), "alert_rule_test": cases}},
	})
	check(t, err)
	file := filepath.Join(t.TempDir(), "test.yaml")
	check(t, os.WriteFile(file, document, 0o600))
	out, _ := exec.CommandContext(t.Context(), filepath.Join(string(programs), "promtool"), "test", "rules", file).CombinedOutput() // an alert fires
	var all []string
	for _, match := range anAlert.FindAllSubmatch(out, -1) {
		all = append(all, string(match[1]))
	}
	if (len(all) == 0) != bytes.Contains(out, []byte("SUCCESS")) {
		t.Fatalf("promtool:\n%s", out)
	}
	return slices.Compact(slices.Sorted(slices.Values(all)))
}

// input returns the series of two pages for promtool, as they are scraped in a cluster.
func input(t *testing.T, text string) (series []map[string]string) {
	t.Helper()
	page, err := exposition.Parse(strings.NewReader(text))
	check(t, err)
	for name, family := range page {
		for _, m := range family.GetMetric() {
			labels := map[string]string{"cluster": "east", "node": "n", "instance": "n"}
			maps.Copy(labels, exposition.Labels(m)) // they are honored
			var list []string
			for label, value := range labels {
				list = append(list, fmt.Sprintf("%s=%q", label, value))
			}
			series = append(series, map[string]string{
				"series": name + "{" + strings.Join(list, ",") + "}",
				"values": history(name, exposition.Value(m)),
			})
		}
	}
	return series
}

// history returns the values of a series in promtool's notation. Energy and time grow in proportion, so that sums stay equal, GPUs are read
// every minute, and all other values stay.
func history(name string, value float64) string {
	switch {
	case name == "gpuledger_gpu_last_reading_timestamp_seconds":
		return fmt.Sprintf("0+60x%d", hours*60)
	case strings.HasSuffix(name, "_joules_total"), strings.HasSuffix(name, "_seconds_total"):
		return fmt.Sprintf("%v+%vx%d", value, value, hours*60)
	}
	return fmt.Sprintf("%vx%d", value, hours*60)
}
