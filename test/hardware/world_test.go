//go:build realtime

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/program"
)

const uuid = "GPU-11111111-2222-3333-4444-555555555555"

// assumed describes a GPU that meets all assumptions of the exporter. other describes a GPU that meets none of them.
// live.h describes the fields.
const (
	assumed = "floor=60000 context=27500 busy=400000 average=1000 refresh=100 sample=139 delay=100 ring=10000 names=context scoped=1 buffer=20 buffer_average=20 buffer_delay=50"
	other   = "floor=140000 context=0 busy=300000 average=3000 instant=1500 refresh=400 late=900 sample=500 delay=700 ring=5000 names=none scope=140 half=1 favour=1 clients=1 buffer=200 buffer_average=2000 buffer_delay=600"
)

// These faults make the GPU in other slow, and its process lists empty.
var faults = []string{
	"fault\tgpu=*\tcall=nvmlDeviceGetClockInfo\tdo=delay:900",
	"fault\tgpu=*\tcall=nvmlDeviceGetComputeRunningProcesses\tdo=drop",
	"fault\tgpu=*\tcall=nvmlDeviceGetMPSComputeRunningProcesses\tdo=drop",
}

// TestWorlds runs the bench with the exporter and loads on both GPUs, with fake drivers at the C ABI. Every comparison
// must agree for the first GPU and disagree for the second GPU. A comparison that cannot fail proves nothing.
func TestWorlds(t *testing.T) {
	programs := build(t)
	for _, tt := range []struct {
		name, live string
		faults     []string
		want       finding
	}{
		{"assumed", assumed, nil, agrees},
		{"other", other, faults, differs},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := programs.run(t, tt.live, tt.faults)
			for _, c := range comparisons {
				want := tt.want
				if strings.Contains(c.question, "nvmlDeviceGetSamples") && !programs.reportBuffers(t) {
					want = notRun
				}
				if got := outcome(text, c.question); got != want {
					t.Errorf("%s: %q, want %q", c.question, got, want)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
		})
	}
}

func outcome(text, question string) finding {
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) < 7 || strings.TrimSpace(cells[1]) != question {
			continue
		}
		switch last := strings.TrimSpace(cells[5]); {
		case last == "agrees":
			return agrees
		case last == "**differs**":
			return differs
		case strings.HasPrefix(last, "not run"):
			return notRun
		}
	}
	return "not on the page"
}

type programs string

func build(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	if err := program.Build(t.Context(), dir, "gpuledger"); err != nil {
		t.Fatal(err)
	}
	check(t, program.Depend(t.Context(), ".", "./load"))
	for name, pkg := range map[string]string{"hardware": ".", "load": "./load"} {
		cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-o", filepath.Join(dir, name), pkg)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
	}
	for _, compile := range []func(string) (string, error){fakes.Compile, fakes.CompileCUDA} {
		if _, err := compile(dir); err != nil {
			t.Fatal(err)
		}
	}
	return programs(dir)
}

// reportBuffers reports whether the fake driver has buffers of power samples.
func (p programs) reportBuffers(t *testing.T) bool {
	text, err := os.ReadFile(filepath.Join(string(p), "libnvidia-ml.so.1"))
	check(t, err)
	return bytes.Contains(text, []byte("nvmlDeviceGetSamples\x00"))
}

// mps replaces the MPS daemon. With -f, it starts a server that has a context. Without arguments, it ends the server.
const mps = `#!/bin/bash
here="$GPULEDGER_FAKE_CUDA_DIR"
if [[ ${1:-} != -f ]]; then
	[[ $(cat) == quit ]] && kill "$(cat "$here/server")"
	exit
fi
"$(dirname "$0")/nvidia-cuda-mps-server" 1000 &
echo $! >"$here/server"
echo "server $(date +%s%N)" >"$here/$!"
wait
`

func (p programs) run(t *testing.T, live string, faults []string) string {
	t.Helper()
	dir, bin := t.TempDir(), t.TempDir()
	state := filepath.Join(t.TempDir(), "state.tsv")
	lines := append([]string{
		"driver\tversion=570.86.15\tnvml=12.570.86.15\tgeneration=1\tloaded=1",
		"live\tgpu=" + uuid + "\tdir=" + dir + "\t" + strings.ReplaceAll(live, " ", "\t"),
		"gpu\tindex=0\tuuid=" + uuid + "\tminor=0\tbus=00000000:1B:00.0\tname=NVIDIA H100 80GB HBM3\tserial=1\tpower_limit=700000\tpower_max=700000" +
			"\tmemory_used=1\tmemory_total=85899345920\tsm_clock=1980\tmemory_clock=2619\tprocesses=1\tsamples=1",
	}, faults...)
	sleep, err := exec.LookPath("sleep")
	check(t, err)
	check(t, os.WriteFile(state, []byte(strings.Join(lines, "\n")+"\n"), 0o644))
	check(t, os.WriteFile(filepath.Join(bin, control), []byte(mps), 0o755))
	check(t, copyFile(sleep, filepath.Join(bin, "nvidia-cuda-mps-server")))
	check(t, os.Chmod(filepath.Join(bin, "nvidia-cuda-mps-server"), 0o755))
	out := filepath.Join(t.TempDir(), "page.md")
	cmd := exec.Command(filepath.Join(string(p), "hardware"), "--out="+out,
		"--nvml.library="+filepath.Join(string(p), "libnvidia-ml.so.1"), "--cuda.library="+filepath.Join(string(p), "libcuda.so.1"))
	cmd.Env = append(os.Environ(), "GPULEDGER_FAKE_NVML_STATE="+state, "GPULEDGER_FAKE_CUDA_DIR="+dir, "PATH="+bin+":"+os.Getenv("PATH"))
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	text, err := os.ReadFile(out)
	check(t, err)
	return string(text)
}

func TestNoGPU(t *testing.T) {
	p := build(t)
	var out bytes.Buffer
	err := run(t.Context(), []string{"--nvml.library=" + filepath.Join(t.TempDir(), "none.so")}, &out)
	if err == nil || !strings.Contains(err.Error(), "open GPU 0") {
		t.Errorf("without a driver: %v", err)
	}
	cmd := exec.CommandContext(context.Background(), filepath.Join(string(p), "load"), "--library="+filepath.Join(string(p), "libcuda.so.1"), "--bus=0")
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "cuInit: CUDA_ERROR_NO_DEVICE (100)") {
		t.Errorf("load without a GPU: %v: %s", err, out)
	}
}

func TestLoad(t *testing.T) {
	p, dir := build(t), t.TempDir()
	for mode, ns := range map[string]float64{"full": 400e6, "smooth": 400e6, "bursts": 400e6, "hold": 0} {
		cmd := exec.Command(filepath.Join(string(p), "load"), "--library="+filepath.Join(string(p), "libcuda.so.1"), "--bus=0", "--mode="+mode, "--work=400ms", "--keep=1ms", "--rate=1e8")
		cmd.Env = append(os.Environ(), "GPULEDGER_FAKE_CUDA_DIR="+dir)
		out, err := cmd.CombinedOutput()
		check(t, err)
		var done work
		check(t, json.Unmarshal(bytes.Split(out, []byte("\n"))[1], &done))
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint(cmd.Process.Pid)))
		check(t, err)
		var ran float64
		for line := range strings.Lines(string(text)) {
			var from, to float64
			if n, _ := fmt.Sscanf(line, "run %f %f", &from, &to); n == 2 {
				ran += to - from
			}
		}
		// The fake driver runs 10^8 iterations per second.
		if abs(ran-ns) > 1e3 || abs(done.Iterations*10-ns) > 1e3 || float64(done.Busy) < 0.99*ns {
			t.Errorf("%s: the GPU ran for %.0f ns, the load reports %.0f iterations in %v; want %.0f ns", mode, ran, done.Iterations, done.Busy, ns)
		}
	}
}

func abs(v float64) float64 { return max(v, -v) }

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
