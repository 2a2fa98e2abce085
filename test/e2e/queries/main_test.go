//go:build e2e

// Package queries_test evaluates the queries in docs/queries.md on pages from a real kube-state-metrics and a real
// reconciler. The test reads the pages a few times, while the pods in a real API server change. It loads them into a
// real Prometheus, as if each page had been valid for a while. Therefore the exact result of each query is known.
package queries_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

// stateMetricsEnv names the folder of kube-state-metrics.
const stateMetricsEnv = "GPULEDGER_E2E_STATE_METRICS"

// hangTimeout is longer than any start of a program.
const hangTimeout = 2 * time.Minute

type watched struct {
	*cluster.Cluster
	stateMetrics, reconciler string // URLs of the programs' pages
	log                      string // file with the reconciler's output
}

// The cluster and both programs end with the test.
func watch(t *testing.T) *watched {
	t.Helper()
	if os.Getenv(stateMetricsEnv) == "" {
		t.Fatalf("%s is not set: run the test with make e2e-queries", stateMetricsEnv)
	}
	c, err := cluster.Start(t.Context())
	check(t, err)
	t.Cleanup(c.Stop)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	check(t, cluster.WriteKubeconfig(kubeconfig, c.Admin))
	w := &watched{Cluster: c}
	w.stateMetrics = startStateMetrics(t, kubeconfig)
	w.reconciler, w.log = startReconciler(t, kubeconfig)
	return w
}

func startStateMetrics(t *testing.T, kubeconfig string) (url string) {
	t.Helper()
	address, telemetry := program.AddressFor(t), program.AddressFor(t)
	start(t, filepath.Join(os.Getenv(stateMetricsEnv), "kube-state-metrics"),
		"--kubeconfig="+kubeconfig, "--host=127.0.0.1", "--port="+program.Port(address), "--telemetry-host=127.0.0.1", "--telemetry-port="+program.Port(telemetry),
		"--resources=pods,jobs,cronjobs,deployments,replicasets")
	return "http://" + address + "/metrics"
}

// The reconciler has all rights, because other tests check the rights of its service account.
func startReconciler(t *testing.T, kubeconfig string) (url, log string) {
	t.Helper()
	address := program.AddressFor(t)
	p := start(t, program.BuiltFor(t, "gpuledger-reconciler"), "--kubeconfig="+kubeconfig, "--enable=workloads", "--leader-election=false", "--retention=1h",
		"--pod-labels=team", "--web.listen-address="+address)
	return "http://" + address + "/metrics", p.Log
}

func start(t *testing.T, path string, args ...string) *program.Program {
	t.Helper()
	p, err := program.OpenFor(t).Start(filepath.Base(path), path, args...)
	check(t, err)
	return p
}

// scrape waits until the page is served.
func scrape(t *testing.T, url string) exposition.Page {
	t.Helper()
	var page exposition.Page
	eventually(t, url+" is served", func() (err error) {
		page, err = exposition.Scrape(t.Context(), url)
		return err
	})
	return page
}

func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	err := ask()
	for begun := time.Now(); err != nil; err = ask() {
		if time.Since(begun) > hangTimeout {
			t.Fatalf("timeout while waiting until %s: %v", what, err)
		}
		<-time.After(50 * time.Millisecond)
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
