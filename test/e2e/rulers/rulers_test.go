//go:build e2e

// Package rulers_test evaluates the recording rules with two rulers that store results with a delay: vmalert and a
// stateless Thanos Ruler. It also sends every alert to a real Alertmanager.
package rulers_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/program"
	"github.com/gpuledger/gpuledger/test/prometheus"
)

const folder = "../../../dashboards/rules"

// TestHours checks that both rulers compute the sums for namespaces, workloads and the fleet from their stored hourly
// results.
func TestHours(t *testing.T) {
	rulers := map[string]func(g *program.Group, rules, store string) (path string, args []string){
		"vmalert": func(_ *program.Group, rules, store string) (string, []string) {
			return filepath.Join(env(t, "GPULEDGER_E2E_RULERS"), "vmalert"), []string{
				"-rule=" + rules, "-datasource.url=" + store, "-remoteWrite.url=" + store, "-notifier.blackhole",
				"-httpListenAddr=" + program.AddressFor(t), "-evaluationInterval=10s",
			}
		},
		"thanos": func(g *program.Group, rules, store string) (string, []string) {
			write := g.Path("write.yaml")
			check(t, os.WriteFile(write, fmt.Appendf(nil, "remote_write:\n- url: %s/api/v1/write\n", store), 0o600))
			return filepath.Join(env(t, "GPULEDGER_E2E_THANOS"), "thanos"), []string{
				"rule", "--data-dir=" + g.Path("ruler"), "--rule-file=" + rules, "--eval-interval=10s", "--query=" + store,
				"--remote-write.config-file=" + write, `--label=ruler="thanos"`,
				"--http-address=" + program.AddressFor(t), "--grpc-address=" + program.AddressFor(t),
			}
		},
	}
	for name, command := range rulers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := program.OpenFor(t)
			store := record(t, g)
			rules := g.Path("rules.yaml")
			check(t, os.WriteFile(rules, []byte(quick(t)), 0o600))
			path, args := command(g, rules, store)
			ruler, err := g.Start(name, path, args...)
			check(t, err)
			for expr, want := range map[string]float64{
				`sum without (ruler) (gpuledger:namespace_energy_joules:increase1h{namespace="alpha"})`:               3600 * 100,
				`sum without (ruler) (gpuledger:namespace_energy_joules:increase1h{namespace="beta"})`:                3600 * 200,
				`sum without (ruler) (gpuledger:namespace_gpu_seconds:increase1h{namespace="beta",model="H100"})`:     3600 / 2,
				`sum without (ruler) (gpuledger:namespace_idle_energy_joules:increase1h{namespace="beta"})`:           3600 * 20,
				`sum without (ruler) (gpuledger:workload_idle_energy_joules:increase1h{workload_name="train"})`:       3600 * 10,
				`sum without (ruler) (gpuledger:workload_active_seconds:increase1h{workload_name="train"})`:           3600 / 4,
				`sum without (ruler) (gpuledger:fleet_gpus:present1h)`:                                                1,
				`sum without (ruler) (gpuledger:fleet_gpus:free1h)`:                                                   0,
				`sum without (ruler) (gpuledger:workload_energy_joules:increase1h{workload_name="train"})`:            3600 * 100,
				`sum without (ruler) (gpuledger:workload_gpu_seconds:increase1h{workload_name="train",model="H100"})`: 3600 / 2,
				`sum without (ruler) (gpuledger:fleet_energy_joules:increase1h)`:                                      3600 * 350,
				`sum without (ruler) (gpuledger:board_unattributed_energy_joules:increase1h{UUID="GPU-1"})`:           3600 * 50,
			} {
				check(t, ruler.Wait(t.Context(), func() error {
					samples, err := prometheus.Query(t.Context(), store, expr, time.Now())
					if err != nil {
						return err
					}
					if len(samples) != 1 || samples[0].Value != want {
						return fmt.Errorf("%s: %v, want %v", expr, samples, want)
					}
					return nil
				}))
			}
		})
	}
}

// quick returns the rules with an evaluation interval of ten seconds instead of fifteen minutes, and with shorter
// windows.
func quick(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, "energy.yaml"))
	check(t, err)
	rules := string(text)
	for slow, fast := range map[string]string{"interval: 15m": "interval: 10s", "[31m]": "[21s]", "minute(vector(time())) >= 32": "minute(vector(time())) >= 0"} {
		if !strings.Contains(rules, slow) {
			t.Fatalf("the rules do not contain %q", slow)
		}
		rules = strings.ReplaceAll(rules, slow, fast)
	}
	return rules
}

// record starts a Prometheus with the last four hours of two pods that share a board, and returns its URL.
func record(t *testing.T, g *program.Group) string {
	t.Helper()
	programs, err := prometheus.FromEnv()
	check(t, err)
	now := time.Now().Truncate(time.Minute)
	var text strings.Builder
	series := func(name, labels string, first, perMinute float64) {
		for i := range 4*60 + 1 { // the last sample is at the end of an hour that has just ended
			fmt.Fprintf(&text, "%s{%s} %v %d\n", name, labels, first+perMinute*float64(i), now.Add(time.Duration(i-4*60)*time.Minute).Unix())
		}
	}
	const gpu = `node="a",UUID="GPU-1",serial="S1"`
	series("gpuledger_board_energy_joules_total", gpu, 0, 60*350)
	series("gpuledger_board_created_timestamp_seconds", gpu, float64(now.Unix()-4*3600), 0)
	series("gpuledger_placement_info", gpu+`,model="H100"`, 1, 0)
	for namespace, watts := range map[string]float64{"alpha": 100, "beta": 200} {
		pod := fmt.Sprintf(`%s,namespace=%q,pod="p",pod_uid="u-%s"`, gpu, namespace, namespace)
		series("gpuledger_allocation_energy_joules_total", pod, 0, 60*watts)
		series("gpuledger_allocation_idle_energy_joules_total", pod, 0, 60*watts/10)
		series("gpuledger_allocation_gpu_seconds_total", pod, 0, 30)
		series("gpuledger_allocation_active_seconds_total", pod, 0, 15)
		series("gpuledger_allocation_created_timestamp_seconds", pod, float64(now.Unix()-4*3600), 0)
	}
	series("gpuledger_pod_info", `namespace="alpha",pod="p",pod_uid="u-alpha",workload_kind="Job",workload_name="train",workload_uid="w"`, 1, 0)
	s := prometheus.Server{
		Programs: programs, Group: g, Name: "store", Address: program.AddressFor(t),
		Flags: []string{"--web.enable-remote-write-receiver"},
	}
	check(t, s.Load(t.Context(), []byte(text.String()+"# EOF\n")))
	_, err = s.Start(t.Context())
	check(t, err)
	return s.URL()
}

// env returns an environment variable with a folder of programs. The Makefile sets it.
func env(t *testing.T, name string) string {
	t.Helper()
	dir := os.Getenv(name)
	if dir == "" {
		t.Fatalf("%s is not set: run the tests with make e2e, or a part of it", name)
	}
	return dir
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
