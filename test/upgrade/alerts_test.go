//go:build e2e

package upgrade

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/test/alerts"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

// hours is the time for which a page is served before the alerts are compared.
const hours = 3

var anAlert = regexp.MustCompile(`(?m)^\s*alertname: (\w+)`)

// alertChanges evaluates the rules of each version on the pages of both versions, and compares the firing alerts.
func alertChanges(t *testing.T, pages [2]exposition.Page) (all []string) {
	t.Helper()
	for rules, folder := range map[string]string{"these rules": "../../dashboards/rules", "earlier rules": Previous(t).Source("dashboards", "rules")} {
		earlier, now := firing(t, folder, pages[0]), firing(t, folder, pages[1])
		for _, change := range slices.Concat(minus("only with the earlier page: ", earlier, now), minus("only with this page: ", now, earlier)) {
			all = append(all, rules+change)
		}
		t.Logf("%s: %v fire", rules, now)
	}
	return all
}

// firing returns the alerts that fire after a node has served a page for some hours.
func firing(t *testing.T, folder string, page exposition.Page) (all []string) {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	folder, err = filepath.Abs(folder)
	check(t, err)
	rules, _, err := alerts.Read(folder)
	check(t, err)
	var cases []map[string]any
	for _, rule := range rules {
		cases = append(cases, map[string]any{"eval_time": fmt.Sprint(hours, "h"), "alertname": rule.Alert, "exp_alerts": []any{}})
	}
	if len(cases) < 40 {
		t.Fatalf("%s has %d alerts", folder, len(cases))
	}
	document, err := yaml.Marshal(map[string]any{
		"rule_files": []string{filepath.Join(folder, "*.yaml")}, "evaluation_interval": "5m",
		"tests": []any{map[string]any{"interval": "1m", "input_series": input(page), "alert_rule_test": cases}},
	})
	check(t, err)
	file := filepath.Join(t.TempDir(), "test.yaml")
	check(t, os.WriteFile(file, document, 0o600))
	err = programs.Promtool(t.Context(), "test", "rules", file)
	for _, match := range anAlert.FindAllStringSubmatch(fmt.Sprint(err), -1) {
		all = append(all, match[1])
	}
	if (len(all) == 0) != (err == nil) {
		t.Fatal(err)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// input returns the series in promtool's format, with the labels that they have in a cluster.
func input(page exposition.Page) (series []map[string]string) {
	for name, family := range page {
		for _, m := range family.GetMetric() {
			labels := map[string]string{"cluster": "east", "node": "n", "instance": "n"}
			maps.Copy(labels, exposition.Labels(m)) // the scrape configuration honors these labels
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

// history uses promtool's notation. Energies and times grow in proportion, so that sums stay equal. The time of a GPU's
// last reading advances by a minute per minute. All other values are constant.
func history(name string, value float64) string {
	switch {
	case name == "gpuledger_gpu_last_reading_timestamp_seconds":
		return fmt.Sprintf("0+60x%d", hours*60)
	case strings.HasSuffix(name, "_joules_total"), strings.HasSuffix(name, "_seconds_total"):
		return fmt.Sprintf("%v+%vx%d", value, value, hours*60)
	}
	return fmt.Sprintf("%vx%d", value, hours*60)
}
