//go:build realtime

package main_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/stage"
)

func release(n *simnode.Node, flags ...string) (string, error) {
	cmd := exec.Command(binary, append([]string{"release", "--state.path=" + filepath.Join(n.Dir(), "state")}, flags...)...)
	cmd.Env = []string{"USER=ada"}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (e *exporter) openDevices(n *simnode.Node) (names []string) {
	e.t.Helper()
	folder := fmt.Sprintf("/proc/%d/fd", e.cmd.Process.Pid)
	files, err := os.ReadDir(folder)
	if err != nil {
		e.t.Fatal(err)
	}
	for _, file := range files {
		target, _ := os.Readlink(filepath.Join(folder, file.Name()))
		if name, ok := strings.CutPrefix(target, n.Devices()+"/"); ok {
			names = append(names, name)
		}
	}
	return names
}

func wantInUse(t *testing.T, err error) {
	t.Helper()
	if !errors.Is(err, simnode.ErrInUse) {
		t.Errorf("error %v, want %v", err, simnode.ErrInUse)
	}
}

func up(p page, name stage.Name) bool {
	return p.Sum("gpuledger_stage_up", map[string]string{"stage": string(name)}) == 1
}

// During a release, the exporter must have closed the driver, so that the driver can be replaced, and must count no
// energy. A release must continue after a restart of the exporter. It must end at its end time, or when a command ends
// it.
func TestRelease(t *testing.T) {
	n := newNode(t, "dgx-h100")
	e := start(t, n, "--sandbox", unhurried)
	before := e.scrapeUntil("containers have energy", hasEnergy)
	if files := e.openDevices(n); len(files) != 9 { // 8 GPUs and nvidiactl
		t.Fatalf("the exporter opened %q, want 9 files", files)
	}
	wantInUse(t, n.Unload())

	if out, err := release(n, "--for=1h"); err != nil || !strings.HasPrefix(out, "released until ") {
		t.Fatalf("%v: %s", err, out)
	}
	if files := e.openDevices(n); len(files) > 0 {
		t.Errorf("the exporter still has %q open", files)
	}
	if err := n.Unload(); err != nil {
		t.Error(err)
	}
	released := e.scrapeUntil("the stage is down", func(p page) bool { return !up(p, stage.Release) && !up(p, stage.Driver) })
	if reason := downStage(e); !strings.Contains(reason, "released until ") || !strings.HasSuffix(reason, " by ada") {
		t.Errorf("the stage driver is down with the reason %q", reason)
	}
	e.stop()
	e = start(t, n, "--sandbox", unhurried)
	if files := e.openDevices(n); len(files) > 0 {
		t.Errorf("after a restart the exporter has opened %q", files)
	}
	n.Happen(simnode.Event{Do: simnode.LoadDriver, Driver: &newDriver})

	if out, err := release(n, "--for=0"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	back := e.scrapeUntil("every counter was reset", func(p page) bool { return p.Sum("gpuledger_gpu_energy_resets_total", nil) == 8 })
	if out, err := release(n, "--for=2s"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	e.scrapeUntil("it is released again", func(p page) bool { return !up(p, stage.Release) })
	after := e.scrapeUntil("the release ended at its time", func(p page) bool {
		return len(p.Matches("gpuledger_stage_up", map[string]string{"stage": string(stage.Release)})) == 0 && up(p, stage.Driver)
	})
	for _, p := range []page{before, released, back, after} {
		checkBalance(t, p)
	}
	checkGrown(t, before, released)
	checkGrown(t, released, back)
	checkGrown(t, back, after)
}

// During the release of a GPU, the exporter must have closed the GPU, so that the GPU can be reset. The other GPUs must
// be read in the meantime.
func TestReleaseGPU(t *testing.T) {
	n := newNode(t, "dgx-h100")
	sc, err := simnode.Lookup("dgx-h100")
	if err != nil {
		t.Fatal(err)
	}
	const broken, other = 3, 0
	is := func(i int) map[string]string { return map[string]string{"UUID": sc.GPUs[i].UUID} }
	e := start(t, n, "--sandbox", unhurried)
	before := e.scrapeUntil("containers have energy", hasEnergy)
	n.Happen(simnode.Event{Do: simnode.FallOff, GPU: broken})
	e.scrapeUntil("a GPU is lost", func(p page) bool { return p.Sum("gpuledger_gpu_present", nil) == 7 })
	if out, err := release(n, "--gpu=none"); err == nil || !strings.Contains(out, "no GPU has the UUID, serial number or PCI address none") {
		t.Errorf("%v: %s", err, out)
	}

	for _, name := range []string{sc.GPUs[other].Serial, strings.ToLower(strings.TrimPrefix(sc.GPUs[other].Bus, "0000")), sc.GPUs[other].UUID} {
		if out, err := release(n, "--gpu="+name, "--for=1h"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if files := e.openDevices(n); len(files) != 7 { // nvidiactl and the six GPUs that are neither lost nor released
			t.Errorf("--gpu=%s: the exporter has %q open, want 7 files", name, files)
		}
		wantInUse(t, n.Reset(other+1))
		wantInUse(t, n.Unload())
	}
	// A lost GPU can also be released.
	if out, err := release(n, "--gpu="+sc.GPUs[broken].Serial, "--for=1h"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if files := e.openDevices(n); len(files) != 8 {
		t.Errorf("the exporter has %q open, want 8 files", files)
	}
	if out, err := release(n, "--gpu="+sc.GPUs[other].UUID, "--for=1h"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := n.Reset(other); err != nil {
		t.Error(err)
	}
	during := e.scrape()
	later := e.scrapeUntil("the other GPUs are read", func(p page) bool {
		const energy = "gpuledger_gpu_energy_joules_total"
		return p.Millijoules(energy, is(other+1)) > during.Millijoules(energy, is(other+1))
	})
	if later.Sum("gpuledger_gpu_present", is(other)) != 1 || len(later.Matches("gpuledger_gpu_power_watts", is(other))) != 0 || up(later, stage.Release) || !up(later, stage.Driver) {
		t.Error("the released GPU must be present without readings, and only the stage release must be down")
	}
	if out, err := release(n, "--for=0"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	after := e.scrapeUntil("the counter was reset", func(p page) bool { return p.Sum("gpuledger_gpu_energy_resets_total", is(other)) == 1 })
	for _, p := range []page{before, during, later, after} {
		checkBalance(t, p)
	}
	checkGrown(t, before, later)
	checkGrown(t, later, after)
	if resets := after.Sum("gpuledger_gpu_energy_resets_total", nil); resets != 1 {
		t.Errorf("%v resets, want 1", resets)
	}
	e.stop()
	if out, err := release(n); err == nil || !strings.Contains(out, "no running exporter uses the state directory ") {
		t.Errorf("without an exporter: %v: %s", err, out)
	}
}
