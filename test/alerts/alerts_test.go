package alerts_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/test/alerts"
	"github.com/gpuledger/gpuledger/test/promdoc"
	"github.com/gpuledger/gpuledger/test/promql"
)

const (
	rules    = "../../dashboards/rules"
	runbooks = "../../docs/runbooks"
	address  = "https://github.com/gpuledger/gpuledger/blob/main/docs/runbooks/"
)

// Alerts and runbooks may query these metrics of other programs.
var foreign = []string{
	"up", "ALERTS", "scrape_samples_scraped", "scrape_samples_post_metric_relabeling",
	"kube_node_status_condition", "kube_node_status_allocatable", "kube_node_spec_unschedulable", "kube_pod_container_status_restarts_total",
	"container_cpu_cfs_throttled_periods_total", "container_cpu_cfs_periods_total",
	"apiserver_mutating_admission_policy_check_total",
}

func read(t *testing.T) (all []alerts.Alert, recorded []string) {
	t.Helper()
	all, recorded, err := alerts.Read(rules)
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 20 {
		t.Fatalf("only %d alerts", len(all))
	}
	return all, recorded
}

var named = regexp.MustCompile(`\$labels\.(\w+)`)

// TestAlerts checks that every alert has the labels and annotations for notifications. It must link its runbook and
// query only existing metrics.
func TestAlerts(t *testing.T) {
	all, recorded := read(t)
	exists := promql.Known(slices.Concat(foreign, recorded)...)
	seen := make(map[string]bool)
	for _, a := range all {
		t.Run(a.Alert, func(t *testing.T) {
			// A rule with the same name and another severity may exist for cordoned nodes.
			key := a.Alert + " " + a.Labels["severity"]
			if seen[key] || !regexp.MustCompile(`^GPULedger([A-Z]+[a-z]*)+$`).MatchString(a.Alert) {
				t.Error("the name is not unique, or is not CamelCase after GPULedger")
			}
			seen[key] = true
			if s := a.Labels["severity"]; !slices.Contains([]string{"critical", "warning", "notice"}, s) {
				t.Errorf("severity %q", s)
			}
			for _, name := range []string{"summary", "description", "dashboard"} {
				if a.Annotations[name] == "" {
					t.Errorf("no %s", name)
				}
			}
			if got, want := a.Annotations["runbook_url"], address+alerts.Runbook(a.Alert); got != want {
				t.Errorf("runbook_url is %s, want %s", got, want)
			}
			d := a.Annotations["dashboard"]
			if !strings.HasPrefix(d, "/d/gpuledger-") || strings.Count(d, "=") != strings.Count(d, "| urlquery }}") {
				t.Errorf("dashboard %s: want /d/gpuledger-…, and every value through urlquery", d)
			}
			if !regexp.MustCompile(`{{ with \$labels\.cluster }}[?&]var-cluster={{ \. \| urlquery }}{{ end }}$`).MatchString(d) {
				t.Errorf("dashboard %s: want the cluster as the last parameter, if the alert has one", d)
			}
			labels := promql.Labels(a.Expr)
			for _, text := range a.Annotations {
				for _, m := range named.FindAllStringSubmatch(text, -1) {
					if !slices.Contains(labels, m[1]) {
						t.Errorf("an annotation contains the label %s; the alert has %v", m[1], labels)
					}
				}
			}
			metrics := promql.Metrics(a.Expr)
			if len(metrics) == 0 {
				t.Error("the alert queries no metric")
			}
			for _, m := range metrics {
				if !exists(m) {
					t.Errorf("metric %s does not exist", m)
				}
			}
		})
	}
}

// TestCordoned checks that each critical alert about a node's hardware has a second rule. This rule has the same
// content, but fires as a notice on a cordoned node. GPULedgerDuplicateGPU concerns two nodes and is always critical.
func TestCordoned(t *testing.T) {
	const cordoned = " on (cluster, node) kube_node_spec_unschedulable == 1"
	all, _ := read(t)
	for _, a := range all {
		if a.Labels["severity"] != "critical" || a.Alert == "GPULedgerDuplicateGPU" {
			continue
		}
		want := a
		want.Expr = strings.Replace(a.Expr, "unless"+cordoned, "and"+cordoned, 1)
		want.Labels = map[string]string{"severity": "notice"}
		same := slices.IndexFunc(all, func(b alerts.Alert) bool { return cmp.Equal(want, b) })
		if want.Expr == a.Expr || same < 0 {
			t.Errorf("%s has no notice for cordoned nodes:\n%s", a.Alert, want.Expr)
		}
	}
}

// TestCases checks that each alert fires in one unit test and does not fire in another.
func TestCases(t *testing.T) {
	files, err := filepath.Glob(rules + "/tests/alerts*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tests: %v", err)
	}
	cases, err := alerts.ReadCases(files...)
	if err != nil {
		t.Fatal(err)
	}
	all, _ := read(t)
	for _, a := range all {
		if c := cases[a.Alert]; c.Firing == 0 || c.Silent == 0 {
			t.Errorf("%s has %d cases in which it fires and %d in which it does not", a.Alert, c.Firing, c.Silent)
		}
	}
	for _, a := range all {
		delete(cases, a.Alert)
	}
	if len(cases) > 0 {
		t.Errorf("cases of alerts that do not exist: %v", cases)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`dashboard: "([^"]*=(&[^"]*)?)"`).FindAllStringSubmatch(string(text), -1) {
			t.Errorf("%s: the link %s sets a variable to an empty value", file, m[1])
		}
	}
}

var headings = []string{"Meaning", "Impact", "Diagnosis", "Mitigation"}

func TestRunbooks(t *testing.T) {
	files, err := filepath.Glob(runbooks + "/gpuledger-*.md")
	if err != nil {
		t.Fatal(err)
	}
	var want, got []string
	all, recorded := read(t)
	for _, a := range all {
		want = append(want, alerts.Runbook(a.Alert))
	}
	for _, file := range files {
		got = append(got, filepath.Base(file))
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("runbooks (-alerts +files):\n%s", diff)
	}
	for _, a := range all {
		t.Run(a.Alert, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(runbooks, alerts.Runbook(a.Alert)))
			if err != nil {
				t.Fatal(err)
			}
			if title, _, _ := strings.Cut(string(text), "\n"); title != "# "+a.Alert {
				t.Errorf("its title is %q", title)
			}
			var parts []string
			for _, m := range regexp.MustCompile(`(?m)^## (.*)$`).FindAllStringSubmatch(string(text), -1) {
				parts = append(parts, m[1])
			}
			if diff := cmp.Diff(headings, parts); diff != "" {
				t.Errorf("headings (-want +got):\n%s", diff)
			}
		})
	}
	files, err = filepath.Glob(runbooks + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	exists := promql.Known(slices.Concat(foreign, recorded)...)
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, query := range promdoc.Blocks(string(text)) {
			for _, m := range promql.Metrics(query) {
				if !exists(m) {
					t.Errorf("%s: metric %s does not exist", filepath.Base(file), m)
				}
			}
		}
	}
}

// TestRunbookIndex checks that the table of runbooks lists every alert with its severity. An alert with two rules
// appears once, with the severity of the first rule.
func TestRunbookIndex(t *testing.T) {
	text, err := os.ReadFile(runbooks + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for _, row := range regexp.MustCompile(`(?m)^\| (\[.*\)) \| (\w+) \|`).FindAllStringSubmatch(string(text), -1) {
		for _, file := range regexp.MustCompile(`\(([^)]+)\)`).FindAllStringSubmatch(row[1], -1) {
			got[file[1]] = row[2]
		}
	}
	want := make(map[string]string)
	all, _ := read(t)
	for _, a := range all {
		if file := alerts.Runbook(a.Alert); want[file] == "" {
			want[file] = a.Labels["severity"]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("severities in the table of runbooks (-alerts +table):\n%s", diff)
	}
}

func TestRunbookName(t *testing.T) {
	tests := map[string]string{
		"GPULedgerGPULost": "gpuledger-gpu-lost.md", "GPULedgerXID": "gpuledger-xid.md", "GPULedgerDuplicateGPU": "gpuledger-duplicate-gpu.md",
		"GPULedgerSerialOnTwoNodes": "gpuledger-serial-on-two-nodes.md",
	}
	for alert, want := range tests {
		if got := alerts.Runbook(alert); got != want {
			t.Errorf("%s: %s, want %s", alert, got, want)
		}
	}
}
