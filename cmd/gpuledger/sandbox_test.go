//go:build realtime

package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/simnode"
)

// TestSandbox checks that the exporter works in the sandbox, also beside a host engine. The
// libraries are installed after its start. Containers are charged, kubelet and driver can restart,
// it ends on SIGTERM, and the next exporter continues the books.
func TestSandbox(t *testing.T) {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION); errno != 0 {
		t.Skipf("this kernel has no Landlock: %v", errno)
	}
	for _, driver := range []string{"nvml", "dcgm"} {
		t.Run(driver, func(t *testing.T) {
			n := newNode(t, "dgx-h100")
			folder := t.TempDir()
			flags := []string{"--sandbox", unhurried, "--nvml.library=" + filepath.Join(folder, filepath.Base(library))}
			if driver == "dcgm" {
				flags = append(flags, n.EngineFlags(filepath.Join(folder, filepath.Base(client)))...)
			}
			e := start(t, n, flags...)
			e.checkSandbox()
			install(t, folder, library, client)
			before := e.scrapeUntil("containers have energy", hasEnergy)
			checkBalance(t, before)
			n.Happen(simnode.Event{Do: simnode.StopKubelet}, simnode.Event{Do: simnode.UnloadDriver},
				simnode.Event{At: 2 * time.Second, Do: simnode.StartKubelet}, simnode.Event{At: 2 * time.Second, Do: simnode.LoadDriver})
			e.scrapeUntil("kubelet and driver are away", func(p page) bool { return downStages(p) >= 2 })
			e.scrapeUntil("no stage is down", func(p page) bool { return downStages(p) == 0 })
			e.stop()

			e = start(t, n, flags...)
			after := e.scrapeUntil("containers have energy", hasEnergy)
			for _, uuid := range before.UUIDs() {
				gpu := map[string]string{"UUID": uuid}
				const energy = "gpuledger_gpu_energy_joules_total"
				if was, is := before.Millijoules(energy, gpu), after.Millijoules(energy, gpu); is < was {
					t.Errorf("%s: %d mJ after %d mJ", uuid, is, was)
				}
			}
		})
	}
}

func downStages(p page) int {
	return len(p.Matches("gpuledger_stage_up", nil)) - int(p.Sum("gpuledger_stage_up", nil))
}

func hasEnergy(p page) bool { return p.Sum("gpuledger_container_energy_joules_total", nil) > 0 }

// checkSandbox checks that the exporter runs in the sandbox, in the process that was
// started and under its name.
func (e *exporter) checkSandbox() {
	e.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.cmd.Process.Pid))
	if err != nil {
		e.t.Fatal(err)
	}
	for _, want := range []string{"Name:\tgpuledger\n", "NoNewPrivs:\t1\n"} {
		if !strings.Contains(string(status), want) {
			e.t.Errorf("no %q in the status of the process:\n%s", want, status)
		}
	}
	if log := strings.Join(e.logged(), "\n"); !strings.Contains(log, `"msg":"running in the sandbox"`) {
		e.t.Error("no sandbox in the log")
	}
}

// install copies files into a folder, each complete when it appears.
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
