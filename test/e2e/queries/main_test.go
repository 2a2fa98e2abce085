//go:build e2e

// Package queries_test asks the queries of docs/queries.md. What they are asked of are
// pages of a real kube-state-metrics and a real reconciler, taken at a few moments in
// the life of some pods of a real API server. A real Prometheus gets each page as if
// it had stood for a while, so that every answer is known to the last digit.
package queries_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/test/e2e/cluster"
	"github.com/gpuledger/gpuledger/test/exposition"
)

// The folders with kube-state-metrics and with prometheus and promtool.
const (
	stateMetricsEnv = "GPULEDGER_E2E_STATE_METRICS"
	prometheusEnv   = "GPULEDGER_E2E_PROMETHEUS"
)

// patience is how long a program may need until it answers.
const patience = 2 * time.Minute

// watched is a cluster and the two programs that watch it.
type watched struct {
	*cluster.Cluster
	stateMetrics, reconciler string // URLs of their pages
	log                      string // the file with what the reconciler writes
}

// watch starts a cluster and the two programs. They end with the test.
func watch(t *testing.T) *watched {
	t.Helper()
	for _, env := range []string{cluster.ProgramsEnv, stateMetricsEnv, prometheusEnv} {
		if os.Getenv(env) == "" {
			t.Fatalf("%s is not set: run the test with make e2e-queries", env)
		}
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
	port, telemetry := freePort(t), freePort(t)
	start(t, filepath.Join(os.Getenv(stateMetricsEnv), "kube-state-metrics"),
		"--kubeconfig="+kubeconfig, "--host=127.0.0.1", "--port="+port, "--telemetry-host=127.0.0.1", "--telemetry-port="+telemetry,
		"--resources=pods,jobs,cronjobs,deployments,replicasets")
	return "http://127.0.0.1:" + port + "/metrics"
}

// startReconciler runs the reconciler as one replica, with all rights: what it may do
// is tested elsewhere.
func startReconciler(t *testing.T, kubeconfig string) (url, log string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "gpuledger-reconciler")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, "github.com/gpuledger/gpuledger/cmd/gpuledger-reconciler")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", build.Args, err, out)
	}
	port := freePort(t)
	log = start(t, binary, "--kubeconfig="+kubeconfig, "--enable=workloads", "--leader-election=false", "--retention=1h",
		"--pod-labels=team", "--web.listen-address=127.0.0.1:"+port)
	return "http://127.0.0.1:" + port + "/metrics", log
}

// start runs a program until the test ends, and shows its log if the test failed. It
// returns the log's file.
func start(t *testing.T, program string, args ...string) string {
	t.Helper()
	log, err := os.Create(filepath.Join(t.TempDir(), "log"))
	check(t, err)
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			showLog(t, program, log)
		}
	})
	return log.Name()
}

func showLog(t *testing.T, program string, log *os.File) {
	_, _ = log.Seek(0, io.SeekStart)
	lines := bufio.NewScanner(log)
	t.Logf("log of %s:", filepath.Base(program))
	for n := 0; lines.Scan() && n < 40; n++ {
		t.Log(lines.Text())
	}
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	check(t, err)
	return port
}

// scrape returns a page, once it is served.
func scrape(t *testing.T, url string) exposition.Page {
	t.Helper()
	var page exposition.Page
	eventually(t, url+" is served", func() error {
		response, err := http.Get(url)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusOK {
			return fmt.Errorf("it answers %s", response.Status)
		}
		page, err = exposition.Parse(response.Body)
		return err
	})
	return page
}

// getJSON reads the answer of an API.
func getJSON(ctx context.Context, url string, into any) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return json.NewDecoder(response.Body).Decode(into)
}

// eventually waits until there is no error.
func eventually(t *testing.T, what string, ask func() error) {
	t.Helper()
	err := ask()
	for begun := time.Now(); err != nil; err = ask() {
		if time.Since(begun) > patience {
			t.Fatalf("waited in vain until %s: %v", what, err)
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
