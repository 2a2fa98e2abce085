//go:build realtime

package main_test

import (
	"errors"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// An invalid command line must end the program with status 2 and one line on stderr. The tests of internal/app check
// the values of each flag.
func TestBadFlags(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"--no-such-flag"}, "-no-such-flag"},
		{[]string{"--tick=1ms", "--state.path=state"}, "--state.path=state: must be an absolute path; --tick=1ms: must be at least 200ms"},
		{[]string{"--dcgm.address=localhost", "--dcgm.fields=/dev/null"}, "--dcgm.fields=/dev/null: no valid field"},
		{[]string{"status", "now"}, `unexpected argument "now"`},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.args, " "), func(t *testing.T) {
			var stderr strings.Builder
			cmd := exec.Command(binary, tt.args...)
			cmd.Stderr = &stderr
			var exit *exec.ExitError
			if err := cmd.Run(); !errors.As(err, &exit) || exit.ExitCode() != 2 {
				t.Errorf("the program ended with %v, want exit status 2", err)
			}
			line := stderr.String()
			if strings.Count(line, "\n") != 1 || !strings.Contains(line, tt.want) {
				t.Errorf("printed %q, want one line with %q", line, tt.want)
			}
		})
	}
}

func TestHelp(t *testing.T) {
	out, err := exec.Command(binary, "--help").Output()
	if err != nil || !strings.Contains(string(out), "-kubelet.pod-resources-socket") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command(binary, "status", "--help").Output()
	if err != nil || !strings.Contains(string(out), "-http.config.file") {
		t.Errorf("%v: %s", err, out)
	}
	out, err = exec.Command(binary, "--version").Output()
	if err != nil || !strings.Contains(string(out), "gpuledger, version") {
		t.Errorf("%v: %s", err, out)
	}
}

// Without a driver, a kubelet, /proc, /sys and a state directory, the exporter must continue to run, log each missing
// part once, and stop on a signal.
func TestNothingThere(t *testing.T) {
	root := t.TempDir()
	file := filepath.Join(root, "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(root, "missing")
	e := run(t, nil,
		"--nvml.library="+filepath.Join(missing, "libnvidia-ml.so.1"), "--path.procfs="+missing, "--path.sysfs="+missing,
		"--path.container-logs="+missing, "--kubelet.pod-resources-socket="+filepath.Join(missing, "kubelet.sock"),
		"--state.path="+filepath.Join(file, "state"), "--tick=200ms")
	p := e.scrapeUntil("the exporter tried several times to open the driver", func(p page) bool {
		return p.Sum("gpuledger_stage_failures_total", map[string]string{"stage": "driver"}) >= 5
	})
	for _, stage := range []string{"driver", "pci", "dmi", "processes", "container_logs", "pod_resources", "state"} {
		of := map[string]string{"stage": stage}
		if len(p.Matches("gpuledger_stage_up", of)) != 1 || p.Sum("gpuledger_stage_up", of) != 0 {
			t.Errorf("stage %s is not down", stage)
		}
		logged := 0
		for _, line := range e.logged() {
			if strings.Contains(line, `"stage":"`+stage+`"`) {
				logged++
			}
		}
		if logged != 1 {
			t.Errorf("stage %s was logged %d times, want once", stage, logged)
		}
	}
	if status, _ := e.get("/-/healthy"); status != http.StatusOK {
		t.Errorf("healthy: status %d", status)
	}
	e.stop()
}

// gracePeriod is the time between SIGTERM and SIGKILL when the kubelet stops a container. If a call hangs, the exporter
// needs half a second to end.
const gracePeriod = 30 * time.Second

// The exporter must end within the grace period.
func (e *exporter) stop() {
	e.t.Helper()
	began := time.Now()
	if err := e.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		e.t.Fatal(err)
	}
	<-e.exited
	if took := time.Since(began); took > gracePeriod {
		e.t.Errorf("the exporter took %v to stop", took)
	}
	if e.err != nil {
		e.t.Errorf("stopped with %v", e.err)
	}
}

// A second exporter with the same state directory must publish the GPUs but charge no energy, and must log the reason
// once.
func TestSecondExporter(t *testing.T) {
	n := newNode(t, "gb200")
	first := start(t, n)
	second := start(t, n)
	// The first tick does not wait for a slow driver, so the GPUs may be missing from the first pages.
	p := second.scrapeUntil("the second exporter shows the GPUs", func(p page) bool { return len(p.UUIDs()) == 4 })
	if n := len(p["gpuledger_gpu_energy_joules_total"].GetMetric()); n != 0 {
		t.Errorf("the second exporter shows %d books", n)
	}
	if p.Sum("gpuledger_stage_up", map[string]string{"stage": "state"}) != 0 {
		t.Error("the stage state of the second exporter is up")
	}
	if logged := second.warnings("state", "not charging energy"); logged != 1 {
		t.Errorf("the second exporter logged %d times that it charges no energy, want once", logged)
	}
	for name := range p {
		if strings.HasPrefix(name, "gpuledger_") && strings.HasSuffix(name, "_joules_total") && len(p[name].GetMetric()) > 0 {
			t.Errorf("the second exporter shows %s", name)
		}
	}
	first.stop()
	second.scrapeUntil("the second exporter takes over", func(p page) bool {
		return len(p["gpuledger_gpu_energy_joules_total"].GetMetric()) == 4
	})
}

func TestPages(t *testing.T) {
	e := start(t, newNode(t, "gb200"))
	for path, want := range map[string]string{
		"/": "gpuledger", "/inventory": `"chassis_serial"`, "/health.json": `"advice"`, "/-/healthy": "healthy", "/-/ready": "ready",
	} {
		if status, body := e.get(path); status != http.StatusOK || !strings.Contains(string(body), want) {
			t.Errorf("%s: status %d: %s", path, status, body)
		}
	}
	if status, _ := e.get("/nothing"); status != http.StatusNotFound {
		t.Errorf("unknown path: status %d", status)
	}
	request, err := http.NewRequest(http.MethodGet, e.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept-Encoding", "gzip")
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Encoding"); got != "gzip" {
		t.Errorf("content encoding %q, want gzip", got)
	}
}
