package deploy_test

import (
	"bytes"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	syaml "sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/internal/reconciler"
)

type scrape struct {
	Namespaces  []string
	Path        any
	Interval    any
	SampleLimit any
	HonorLabels any
	Relabel     []any // relabeling rules for targets
	Metrics     []any // relabeling rules for samples
}

// TestScrape checks that the configuration for Prometheus without the operator has the same settings as the
// PodMonitors, including the operator's defaults. It does not have to drop the labels that only the operator adds.
func TestScrape(t *testing.T) {
	monitors := podMonitors(t)
	for _, config := range scrapeConfigs(t) {
		job := config["job_name"].(string)
		if _, ok := monitors[job]; !ok {
			t.Errorf("no PodMonitor has the job %s", job)
		}
		plain := scrape{
			Path: config["metrics_path"], Interval: config["scrape_interval"],
			SampleLimit: config["sample_limit"], HonorLabels: config["honor_labels"],
			Relabel: without(list(config["relabel_configs"]), "keep"), Metrics: list(config["metric_relabel_configs"]),
		}
		for _, name := range list(at(config, "kubernetes_sd_configs", "namespaces", "names")) {
			plain.Namespaces = append(plain.Namespaces, name.(string))
		}
		if diff := cmp.Diff(monitors[job], plain); diff != "" {
			t.Errorf("%s (-PodMonitor +scrape.yaml):\n%s", job, diff)
		}
	}
}

// TestScrapedDaemonSet checks that the configuration for Prometheus without the operator scrapes only the
// exporter's own DaemonSet.
func TestScrapedDaemonSet(t *testing.T) {
	for _, config := range scrapeConfigs(t) {
		if job := config["job_name"]; job == "gpuledger-reconciler" || job == "gpuledger-archive" {
			continue
		}
		got := scrapedDaemonSets(t, list(at(config, "kubernetes_sd_configs", "namespaces", "names")), []any{config}, "relabel_configs")
		if diff := cmp.Diff([]string{"gpuledger/gpuledger"}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", config["job_name"], diff)
		}
	}
}

// scrapedDaemonSets returns, as namespace/name, the DaemonSets whose pods the relabeling rules of the endpoints keep.
func scrapedDaemonSets(t *testing.T, namespaces, endpoints []any, rules string) []string {
	t.Helper()
	owner := []any{"__meta_kubernetes_namespace", "__meta_kubernetes_pod_controller_name"}
	var daemonSets []string
	for _, endpoint := range endpoints {
		var kept []string
		for _, rule := range list(at(endpoint, rules)) {
			if at(rule, "action") == "keep" && cmp.Equal(at(rule, "source_labels"), owner) && at(rule, "separator") == "/" {
				kept = strings.Split(at(rule, "regex").(string), "|")
			}
		}
		if len(kept) == 0 || daemonSets != nil && !cmp.Equal(daemonSets, kept) {
			t.Fatalf("one endpoint keeps the pods of %q, another the pods of %q", kept, daemonSets)
		}
		daemonSets = kept
	}
	var of []any
	for _, d := range daemonSets {
		namespace, _, _ := strings.Cut(d, "/")
		of = append(of, namespace)
	}
	if diff := cmp.Diff(of, namespaces); diff != "" {
		t.Errorf("namespaces (-kept +discovered):\n%s", diff)
	}
	return daemonSets
}

// TestHandOver checks the label instance. The label instance of series about the cluster must not change after a
// change of leader. The series about a replica must carry an instance that belongs only to this replica. Two
// targets must not write the same series.
func TestHandOver(t *testing.T) {
	rule, _ := podMonitors(t)["gpuledger-reconciler"].Metrics[0].(map[string]any)
	shared := regexp.MustCompile("^(?:" + rule["regex"].(string) + ")$")
	cluster := regexp.MustCompile("^gpuledger_(pod|workload|node)_")
	for _, part := range reconciler.Catalogue() {
		for _, m := range part.Metrics {
			want := cluster.MatchString(m.Name) && m.TypeName() == "gauge"
			if got := shared.MatchString(m.Name); got != want {
				t.Errorf("%s, a %s: series are shared by the replicas: %v, want %v", m.Name, m.TypeName(), got, want)
			}
		}
	}
}

func podMonitors(t *testing.T) map[string]scrape {
	t.Helper()
	text, err := os.ReadFile(manifests + "components/podmonitor/podmonitor.yaml")
	check(t, err)
	monitors := make(map[string]scrape)
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var monitor map[string]any
		check(t, syaml.Unmarshal(document, &monitor))
		monitor, _ = snake(monitor).(map[string]any)
		namespace := monitor["metadata"].(map[string]any)["namespace"].(string)
		spec := monitor["spec"].(map[string]any)
		for _, endpoint := range list(spec["pod_metrics_endpoints"]) {
			job, m := jobOf(endpoint.(map[string]any))
			m.SampleLimit = spec["sample_limit"]
			for _, name := range list(at(spec, "namespace_selector", "match_names")) {
				m.Namespaces = append(m.Namespaces, name.(string))
			}
			if m.Namespaces == nil {
				m.Namespaces = []string{namespace}
			}
			monitors[job] = m
		}
	}
	return monitors
}

func jobOf(endpoint map[string]any) (string, scrape) {
	rules := list(endpoint["relabelings"])
	// The first rule sets the job. The last rule drops labels that the operator adds.
	return rules[0].(map[string]any)["replacement"].(string), scrape{
		Path: endpoint["path"], Interval: endpoint["interval"], HonorLabels: endpoint["honor_labels"],
		Relabel: without(without(rules[1:], "labeldrop"), "keep"), Metrics: list(endpoint["metric_relabelings"]),
	}
}

func scrapeConfigs(t *testing.T) []map[string]any {
	t.Helper()
	text, err := os.ReadFile(manifests + "prometheus/scrape.yaml")
	check(t, err)
	return scrapeConfigsOf(t, text, 4)
}

func scrapeConfigsOf(t *testing.T, text []byte, want int) []map[string]any {
	t.Helper()
	var config struct {
		ScrapeConfigs []map[string]any `json:"scrape_configs"`
	}
	check(t, syaml.Unmarshal(text, &config))
	if len(config.ScrapeConfigs) != want {
		t.Fatalf("%d scrape configurations found", len(config.ScrapeConfigs))
	}
	return config.ScrapeConfigs
}

// TestScrapeMachine checks the configuration in docs/machine.md for machines without Kubernetes. The configuration may
// differ from the configuration for a cluster only in the discovery and the names of targets. Both configurations must
// set the same labels.
func TestScrapeMachine(t *testing.T) {
	page, err := os.ReadFile("../../docs/machine.md")
	check(t, err)
	_, text, _ := strings.Cut(string(page), "\n```yaml\n")
	text, _, _ = strings.Cut(text, "\n```")
	for i, machine := range scrapeConfigsOf(t, []byte(text), 2) {
		cluster := scrapeConfigs(t)[i]
		var names [2][]any
		for n, config := range []map[string]any{cluster, machine} {
			for _, rule := range list(config["relabel_configs"]) {
				if label := at(rule, "target_label"); label != nil {
					names[n] = append(names[n], label)
				}
			}
			for _, field := range []string{"kubernetes_sd_configs", "static_configs", "relabel_configs"} {
				delete(config, field)
			}
		}
		if diff := cmp.Diff(names[0], names[1]); diff != "" {
			t.Errorf("labels of targets (-cluster +machine):\n%s", diff)
		}
		if diff := cmp.Diff(cluster, machine); diff != "" {
			t.Errorf("(-cluster +machine):\n%s", diff)
		}
	}
}

var capital = regexp.MustCompile("[A-Z]")

// snake converts the keys in a value from the operator's form (camel case) to the form of Prometheus (snake case).
func snake(value any) any {
	switch v := value.(type) {
	case map[string]any:
		renamed := make(map[string]any)
		for key, field := range v {
			renamed[capital.ReplaceAllStringFunc(key, func(s string) string { return "_" + strings.ToLower(s) })] = snake(field)
		}
		return renamed
	case []any:
		for i := range v {
			v[i] = snake(v[i])
		}
	}
	return value
}

// If the path leads through a list, at uses the first item of the list.
func at(value any, path ...string) any {
	for _, key := range path {
		if items := list(value); len(items) > 0 {
			value = items[0]
		}
		fields, _ := value.(map[string]any)
		value = fields[key]
	}
	return value
}

func list(value any) []any {
	items, _ := value.([]any)
	return items
}

func without(rules []any, action string) []any {
	var others []any
	for _, rule := range rules {
		if rule.(map[string]any)["action"] != action {
			others = append(others, rule)
		}
	}
	return others
}

// TestClusterPodMonitoring checks that Google's collector scrapes the same jobs as the PodMonitors and keeps the labels
// of their series.
func TestClusterPodMonitoring(t *testing.T) {
	text, err := os.ReadFile(manifests + "components/clusterpodmonitoring/clusterpodmonitoring.yaml")
	check(t, err)
	type endpoint struct {
		Path, Interval string
		SampleLimit    int
	}
	got, want := make(map[string]endpoint), make(map[string]endpoint)
	for document := range bytes.SplitSeq(text, []byte("\n---\n")) {
		var m struct {
			Metadata struct{ Name string }
			Spec     struct {
				Endpoints    []struct{ Path, Interval string }
				TargetLabels struct{ Metadata []string }
				Limits       struct{ Samples int }
			}
		}
		check(t, syaml.Unmarshal(document, &m))
		for _, e := range m.Spec.Endpoints {
			got[m.Metadata.Name] = endpoint{e.Path, e.Interval, m.Spec.Limits.Samples}
		}
		for _, label := range m.Spec.TargetLabels.Metadata {
			if label != "node" {
				t.Errorf("%s: target label %s overrides the label of the series", m.Metadata.Name, label)
			}
		}
	}
	for job, m := range podMonitors(t) {
		path, _ := m.Path.(string)
		limit, _ := m.SampleLimit.(float64)
		want[job] = endpoint{path, m.Interval.(string), int(limit)}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("jobs (-PodMonitor +ClusterPodMonitoring):\n%s", diff)
	}
}
