//go:build realtime

package main_test

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/test/certificate"
)

// The exporter must work in the sandbox, with and without a host engine. The libraries may be installed after the
// exporter's start. It must charge containers, continue after restarts of the kubelet and the driver, and end on
// SIGTERM. The next exporter must continue its accounts.
func TestSandbox(t *testing.T) {
	needLandlock(t)
	for _, driver := range []string{"nvml", "dcgm"} {
		t.Run(driver, func(t *testing.T) {
			n := newNode(t, "dgx-h100")
			folder := t.TempDir()
			flags := []string{"--sandbox", unhurried, "--nvml.library=" + filepath.Join(folder, filepath.Base(library))}
			if driver == "dcgm" {
				flags = append(flags, n.EngineFlags(filepath.Join(folder, filepath.Base(client)))...)
			}
			e := start(t, n, flags...)
			e.checkSandbox(2)
			install(t, folder, library, client)
			before := e.scrapeUntil("containers have energy", hasEnergy)
			checkBalance(t, before)
			n.Happen(simnode.Event{Do: simnode.StopKubelet}, simnode.Event{Do: simnode.UnloadDriver},
				simnode.Event{At: 2 * time.Second, Do: simnode.StartKubelet}, simnode.Event{At: 2 * time.Second, Do: simnode.LoadDriver})
			e.scrapeUntil("the kubelet and the driver are down", func(p page) bool { return downStages(p) >= 2 })
			e.scrapeUntil("no stage is down", func(p page) bool { return downStages(p) == 0 })
			e.stop()

			e = start(t, n, flags...)
			after := e.scrapeUntil("containers have energy", hasEnergy)
			for _, uuid := range before.UUIDs() {
				gpu := map[string]string{"UUID": uuid}
				const energy = "gpuledger_gpu_energy_joules_total"
				if was, is := before.Millijoules(energy, gpu), after.Millijoules(energy, gpu); is < was {
					t.Errorf("%s: the counter decreased to %d mJ from %d mJ", uuid, is, was)
				}
			}
		})
	}
}

func needLandlock(t *testing.T) {
	t.Helper()
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		t.Skipf("this kernel has no Landlock: %v", errno)
	}
}

func downStages(p page) int {
	return len(p.Matches("gpuledger_stage_up", nil)) - int(p.Sum("gpuledger_stage_up", nil))
}

func hasEnergy(p page) bool { return p.Sum("gpuledger_container_energy_joules_total", nil) > 0 }

// In the sandbox, the exporter must serve a renewed certificate, with and without the system call filter.
func TestCertificateInSandbox(t *testing.T) {
	needLandlock(t)
	for flag, filters := range map[string]int{"--sandbox": 2, "--sandbox.seccomp=false": 0} {
		t.Run(flag, func(t *testing.T) {
			n := newNode(t, "idle")
			e, _ := startSecure(t, n, "--sandbox", flag)
			folder := filepath.Dir(e.webConfig())
			isServed := func() bool {
				text, err := os.ReadFile(filepath.Join(folder, "cert.pem"))
				if err != nil {
					t.Fatal(err)
				}
				roots := x509.NewCertPool()
				roots.AppendCertsFromPEM(text)
				c, err := tls.Dial("tcp", strings.TrimPrefix(e.url, "https://"), &tls.Config{RootCAs: roots})
				return err == nil && c.Close() == nil
			}
			eventually(t, "its certificate is served", isServed)
			e.checkSandbox(filters)
			certificate.Write(t, folder, "127.0.0.1")
			eventually(t, "the new certificate is served", isServed)
			e.stop()
		})
	}
}

// The exporter must run in the process that was started, under the name gpuledger, and with the system call filters in
// all threads.
func (e *exporter) checkSandbox(filters int) {
	e.t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", e.cmd.Process.Pid))
	if err != nil || len(threads) < 2 {
		e.t.Fatalf("%d threads, error %v", len(threads), err)
	}
	mode := 0
	if filters > 0 {
		mode = 2 // SECCOMP_MODE_FILTER
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		// The thread has ended.
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
			continue
		}
		if err != nil {
			e.t.Fatal(err)
		}
		for _, want := range []string{
			"Name:\tgpuledger\n", "NoNewPrivs:\t1\n", fmt.Sprintf("Seccomp:\t%d\n", mode), fmt.Sprintf("Seccomp_filters:\t%d\n", filters),
		} {
			if !strings.Contains(string(status), want) {
				e.t.Errorf("the status of a thread does not contain %q:\n%s", want, status)
			}
		}
	}
	want := fmt.Sprintf(`"seccomp":%v`, filters > 0)
	if log := strings.Join(e.logged(), "\n"); !strings.Contains(log, `"msg":"running in the sandbox"`) || !strings.Contains(log, want) {
		e.t.Errorf("the log has no line about a sandbox with %s", want)
	}
}

// Each file is complete when it appears.
func install(t *testing.T, folder string, files ...string) {
	t.Helper()
	for _, file := range files {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		target := filepath.Join(folder, filepath.Base(file))
		if err := os.WriteFile(target+".new", content, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(target+".new", target); err != nil {
			t.Fatal(err)
		}
	}
}
