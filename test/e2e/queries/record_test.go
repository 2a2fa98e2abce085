//go:build e2e

package queries_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	syaml "sigs.k8s.io/yaml"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

const scrapeConfig = "../../../manifests/prometheus/scrape.yaml"

// With this feature, Prometheus includes the increase of a counter before its first scrape.
const zeros = "--enable-feature=created-timestamp-zero-ingestion"

// The scrape configuration must be valid for Prometheus as a server and as an agent.
func TestScrapeConfig(t *testing.T) {
	for _, flags := range [][]string{{"--lint=all", "--lint-fatal"}, {"--agent"}} {
		if err := server(t).Promtool(t.Context(), append([]string{"check", "config", scrapeConfig}, flags...)...); err != nil {
			t.Error(err)
		}
	}
}

// beside contains pages with series of the reconciler and of kube-state-metrics, by path. Prometheus must send only the
// series about teams and workloads.
var beside = map[string]string{
	"/metrics": `gpuledger_pod_info{pod_uid="u1"} 1
gpuledger_pod_labels{pod_uid="u1",label_team="red"} 1
gpuledger_node_machine_info{node="a",machine="i-1"} 1
gpuledger_workload_info{uid="w1"} 1
`,
	"/kube": `kube_namespace_labels{namespace="alpha",label_team="red"} 1
kube_pod_info{pod="a"} 1
`,
}

// The rules in hours have results immediately, unlike the hourly rules in dashboards/rules.
const hours = `groups:
- name: hours
  interval: 1s
  rules:
  - {record: "gpuledger:namespace_energy_joules:increase1h", expr: "vector(1)"}
  - {record: "gpuledger:gpu_identity:info", expr: "vector(1)"}
`

// TestRecordIsSent checks that a server and an agent send exactly the page /metrics/record of a real exporter and the
// series about teams. The server must also send the hourly results of its rules. The test changes only the addresses of
// the pods and the archive in the shipped scrape configuration. Each counter must begin at 0. Prometheus does not send
// zeros from before its own start, so the exporter starts after Prometheus.
func TestRecordIsSent(t *testing.T) {
	for _, mode := range []string{"server", "agent"} {
		t.Run(mode, func(t *testing.T) {
			archive, exporter := server(t), program.AddressFor(t)
			archive.Flags = []string{"--web.enable-remote-write-receiver"}
			_, err := archive.Start(t.Context())
			check(t, err)
			others := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/plain; version=0.0.4")
				_, _ = io.WriteString(w, beside[r.URL.Path])
			}))
			defer others.Close()
			config := shipped(t, exporter, others.Listener.Addr().String(), archive.URL())
			want := map[string]float64{
				"gpuledger_placement_info": 4, "gpuledger_board_energy_joules_total": 4,
				"gpuledger_allocation_energy_joules_total": 4, "gpuledger_allocation_seconds_total": 4, "up": 1,
				"gpuledger_allocation_created_timestamp_seconds": 4, "gpuledger_board_created_timestamp_seconds": 4,
				"gpuledger_allocation_exclusive_energy_joules_total": 4, "gpuledger_allocation_idle_energy_joules_total": 4,
				"gpuledger_allocation_estimated_energy_joules_total": 4, "gpuledger_board_estimated_energy_joules_total": 4, "gpuledger_board_uncounted_energy_bound_joules_total": 4,
				"gpuledger_allocation_active_seconds_total": 4, "gpuledger_allocation_busy_seconds_total": 4, "gpuledger_allocation_gpu_seconds_total": 4,
				"gpuledger_board_unattributed_energy_joules_total": 20, "gpuledger_board_energy_source_info": 4,
				"gpuledger_board_energy_resets_total": 4, "gpuledger_board_losses_total": 4, "gpuledger_board_remapped_rows_total": 8,
				"gpuledger_board_ecc_errors_total": 16, "gpuledger_board_low_memory_banks": 4, "gpuledger_board_nvlink_errors_total": 4, "gpuledger_board_pcie_replays_total": 4,
				"gpuledger_board_thermal_throttled_seconds_total": 4, "gpuledger_board_power_brake_throttled_seconds_total": 4,
				"gpuledger_pod_info": 1, "gpuledger_pod_labels": 1, "gpuledger_namespace_info": 2, "gpuledger_node_machine_info": 1, "kube_namespace_labels": 1,
			}
			if mode == "server" {
				rules := filepath.Join(t.TempDir(), "hours.yaml")
				check(t, os.WriteFile(rules, []byte(hours), 0o600))
				config += "rule_files: [" + rules + "]\n"
				want["gpuledger:namespace_energy_joules:increase1h"] = 1
			}
			sender := server(t)
			sender.Config, sender.Flags, sender.Agent = []byte(config), []string{zeros}, mode == "agent"
			_, err = sender.Start(t.Context())
			check(t, err)
			start(t, program.BuiltFor(t, "simnode"), "--scenario=gb200", "--web.listen-address="+exporter)
			eventuallyHas(t, archive.URL(), want)
			checkRecord(t, archive.URL())
		})
	}
}

// checkRecord checks that the labels of each series name its origin, and that each counter begins at 0.
func checkRecord(t *testing.T, url string) {
	t.Helper()
	for _, query := range []string{
		`{__name__=~"up|gpuledger_(placement|board|allocation)_.+", job!="gpuledger-record"}`,
		`{__name__=~"up|gpuledger_(placement|board|allocation)_.+", instance!="record-node"}`,
		`{__name__=~"gpuledger_pod_.+", job!="gpuledger-reconciler"}`,
		`{__name__=~".+", cluster!="example"}`,
		`{__name__=~"gpuledger_(placement|board|allocation)_.+", node!="gb200-0"}`, // the label must come from the exporter and not from the target
		`{__name__=~"gpuledger_(placement|board|allocation)_.+", serial=""}`,
		`min_over_time(gpuledger_board_energy_joules_total[1h]) > 0`,
		`min_over_time(gpuledger_allocation_energy_joules_total[1h]) > 0`,
		`min_over_time(gpuledger_allocation_seconds_total[1h]) > 0`,
	} {
		got, err := prometheus.Query(t.Context(), url, query, time.Now())
		check(t, err)
		if len(got) > 0 {
			t.Errorf("%s: %v", query, got)
		}
	}
}

func eventuallyHas(t *testing.T, url string, want map[string]float64) {
	t.Helper()
	var got map[string]float64
	for begun := time.Now(); time.Since(begun) < hangTimeout/4; <-time.After(200 * time.Millisecond) {
		samples, err := prometheus.Query(t.Context(), url, `count by (__name__) ({__name__=~".+"})`, time.Now())
		check(t, err)
		got = make(map[string]float64)
		for _, s := range samples {
			got[s.Labels["__name__"]] = s.Value
		}
		if cmp.Equal(want, got) {
			return
		}
	}
	t.Fatalf("series (-want +got):\n%s", cmp.Diff(want, got))
}

// shipped returns the shipped scrape configuration with one exporter, one server for the series of the reconciler and
// kube-state-metrics, and one archive. The scrape interval is so long that counters increase before the first scrape.
func shipped(t *testing.T, exporter, others, archive string) string {
	t.Helper()
	text, err := os.ReadFile(scrapeConfig)
	check(t, err)
	var config map[string]any
	check(t, syaml.Unmarshal(text, &config))
	for _, job := range config["scrape_configs"].([]any) {
		job := job.(map[string]any)
		delete(job, "kubernetes_sd_configs")
		job["scrape_interval"] = "5s"
		job["static_configs"] = []any{
			map[string]any{"targets": []string{exporter}, "labels": map[string]string{
				"__meta_kubernetes_namespace":               "gpuledger",
				"__meta_kubernetes_pod_controller_name":     "gpuledger",
				"__meta_kubernetes_pod_container_port_name": "gpuledger",
				"__meta_kubernetes_pod_phase":               "Running",
				"__meta_kubernetes_pod_node_name":           "record-node",
			}},
			map[string]any{"targets": []string{others}, "labels": map[string]string{
				"__meta_kubernetes_pod_container_port_name":               "metrics",
				"__meta_kubernetes_pod_label_app_kubernetes_io_component": "reconciler",
				"__meta_kubernetes_pod_phase":                             "Running",
			}},
		}
	}
	config["scrape_configs"] = append(config["scrape_configs"].([]any), map[string]any{
		"job_name": "kube-state-metrics", "scrape_interval": "5s", "metrics_path": "/kube",
		"static_configs": []any{map[string]any{"targets": []string{others}}},
	})
	writes := slices.DeleteFunc(config["remote_write"].([]any), func(w any) bool {
		return w.(map[string]any)["url"] != "https://archive.example.com/api/v1/write"
	})
	if len(writes) != 1 {
		t.Fatalf("%d archives", len(writes))
	}
	writes[0].(map[string]any)["url"] = archive + "/api/v1/write"
	config["remote_write"] = writes
	text, err = syaml.Marshal(config)
	check(t, err)
	return string(text)
}
