//go:build e2e

// Package units_test checks that the shipped exporter maps processes of a real Slurm job and of a real Podman
// container. Only the driver is simulated. Its GPU lists the real process.
package units_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/exposition"
	"github.com/gpuledger/gpuledger/test/program"
)

var library, client string

// sleeper is the path of a copy of this program that only sleeps. It runs in a container without other files.
const sleeper = "/sleeper"

func TestMain(m *testing.M) {
	if os.Args[0] == sleeper {
		<-time.After(time.Hour)
		return
	}
	flag.Parse()
	if library = os.Getenv("GPULEDGER_E2E_NVML"); library != "" { // the library was compiled in advance, for a machine without a compiler
		os.Exit(m.Run())
	}
	os.Exit(fakes.Main(m, &library, &client))
}

const timeout = 2 * time.Minute

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(timeout); !ok(); {
		if time.Now().After(end) {
			t.Fatalf("not within %v: %s", timeout, what)
		}
		<-time.After(100 * time.Millisecond)
	}
}

// machine is this machine with a simulated GPU. One real process works on this GPU.
type machine struct {
	t    *testing.T
	url  string
	flag []string
}

// The process with the given PID works on the simulated GPU.
func start(t *testing.T, pid int, flags ...string) *machine {
	t.Helper()
	sc, err := simnode.Lookup("idle")
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	node, err := simnode.Open(filepath.Join(dir, "node"), sc, host.Now())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { node.Close() })
	state := filepath.Join(dir, "state.tsv")
	step := func() error {
		if err := node.Step(host.Now()); err != nil {
			return err
		}
		return withPID(filepath.Join(node.Dir(), "driver/state.tsv"), state, pid)
	}
	if err := step(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		for ctx.Err() == nil {
			if err := step(); err != nil {
				ended <- err
				return
			}
			<-time.After(50 * time.Millisecond)
		}
		ended <- nil
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Setenv("GPULEDGER_FAKE_NVML_STATE", state)
	t.Setenv("GPULEDGER_FAKE_NVML_LOG", filepath.Join(dir, "calls.tsv"))
	m := &machine{t: t, flag: append([]string{
		"--kubelet.pod-resources-socket=", "--path.sysfs=" + filepath.Join(node.Dir(), "sys"), "--state.path=" + filepath.Join(dir, "node/state"),
		"--node.name=test", "--nvml.library=" + library, "--nvml.call-timeout=10s", "--sandbox=false",
	}, flags...)}
	address := program.AddressFor(t)
	m.url = "http://" + address
	group := program.OpenFor(t)
	p, err := group.Start("exporter", program.BuiltFor(t, "gpuledger"), append(m.flag, "--web.listen-address="+address)...)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Ready(t.Context(), m.url+"/-/ready"); err != nil {
		t.Fatal(err)
	}
	return m
}

var pids = regexp.MustCompile(`\tpid=\d+`)

// withPID copies the driver's state, but gives all processes the given PID, even on other GPUs.
func withPID(from, to string, pid int) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	text = pids.ReplaceAll(text, []byte("\tpid="+strconv.Itoa(pid)))
	if err := os.WriteFile(to+".new", text, 0o644); err != nil {
		return err
	}
	return os.Rename(to+".new", to)
}

func (m *machine) page() exposition.Page {
	m.t.Helper()
	request, err := http.NewRequestWithContext(m.t.Context(), http.MethodGet, m.url+"/metrics", http.NoBody)
	if err != nil {
		m.t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		m.t.Fatal(err)
	}
	defer response.Body.Close()
	p, err := exposition.Parse(response.Body)
	if err != nil {
		m.t.Fatal(err)
	}
	return p
}

func (m *machine) energy(u gpu.Unit) float64 {
	return m.page().Sum("gpuledger_unit_energy_joules_total", map[string]string{"manager": u.Manager, "unit": u.Name})
}

// read waits until the file is not empty.
func read(t *testing.T, path string) (text string) {
	t.Helper()
	eventually(t, path+" has content", func() bool {
		data, _ := os.ReadFile(path)
		text = strings.TrimSpace(string(data))
		return text != ""
	})
	return text
}

// TestSlurm runs a job in a real Slurm cluster that consists of this machine. Our prolog records that the job holds a
// GPU until its end.
func TestSlurm(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "slurm") // a short path, because it contains a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	job := filepath.Join(folder, "job")
	cmd := exec.CommandContext(t.Context(), "../../../tools/slurm", folder, "/bin/sh", "-c",
		fmt.Sprintf(`echo $SLURM_JOB_ID $$ >%[1]s.new; mv %[1]s.new %[1]s; while [ ! -e %[1]s.end ]; do sleep 0.2; done`, job))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if logs, _ := filepath.Glob(filepath.Join(folder, "log/*")); t.Failed() {
			for _, name := range logs {
				text, _ := os.ReadFile(name)
				t.Logf("%s:\n%s", name, text)
			}
		}
	})
	fields := strings.Fields(read(t, job))
	pid, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	cgroup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	t.Logf("cgroup of the job:\n%s", cgroup)
	m := start(t, pid, "--units.held-dir="+filepath.Join(folder, "held"))
	unit := gpu.Unit{Manager: "slurm", Name: fields[0]}
	of := map[string]string{"manager": "slurm", "unit": unit.Name}
	eventually(t, "the job is charged energy and holds its GPU", func() bool {
		return m.energy(unit) > 0 && m.page().Sum("gpuledger_unit_gpu_allocated_seconds_total", of) > 0
	})
	if n := m.page().Sum("gpuledger_unit_info", map[string]string{"unit": unit.Name, "partition": "gpu", "cluster_name": "test", "job_name": "train resnet"}); n != 1 {
		t.Errorf("%v info series with the partition and the name of the job, want 1", n)
	}
	if err := os.WriteFile(job+".end", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v\n%s", err, &out)
	}
	eventually(t, "the job holds no GPU after its end", func() bool { return m.page().Sum("gpuledger_unit_gpu_info", of) == 0 })
}

// cdiSpec lists a GPU for Podman in the format of the Container Device Interface, as NVIDIA's toolkit does. It uses the
// number of the simulated GPU's device node.
const cdiSpec = `{"cdiVersion": "0.5.0", "kind": "nvidia.com/gpu", "devices": [{"name": "0", "containerEdits": {"deviceNodes": [
	{"path": "/dev/nvidia0", "type": "c", "major": 195, "minor": 0}]}}]}`

// TestPodman runs a container whose file system is a folder with one program.
func TestPodman(t *testing.T) {
	root := t.TempDir()
	self, err := os.ReadFile("/proc/self/exe")
	if err == nil {
		err = os.WriteFile(filepath.Join(root, sleeper), self, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("gpuledger-test-%d", os.Getpid())
	const folder = "/run/cdi"
	if err := os.MkdirAll(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	spec := filepath.Join(folder, name+".json")
	if err := os.WriteFile(spec, []byte(cdiSpec), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(spec) })
	pidfile := filepath.Join(t.TempDir(), "pid")
	cmd := exec.CommandContext(t.Context(), "podman", "--cgroup-manager=cgroupfs", "run", "--rm", "--detach", "--network=none", "--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024", "--name="+name,
		"--device=nvidia.com/gpu=0", "--pidfile="+pidfile, "--rootfs", root, sleeper)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() {
		_ = exec.Command("podman", "--cgroup-manager=cgroupfs", "rm", "--force", "--time=0", name).Run()
	})
	pid, err := strconv.Atoi(read(t, pidfile))
	if err != nil {
		t.Fatal(err)
	}
	cgroup, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	t.Logf("cgroup of the container:\n%s", cgroup)
	m := start(t, pid)
	eventually(t, "the container is charged energy under its name", func() bool { return m.energy(gpu.Unit{Manager: "podman", Name: name}) > 0 })
	held := map[string]string{"manager": "podman", "unit": name, "sharing": string(gpu.SharingExclusive)}
	eventually(t, "the container holds its GPU", func() bool { return m.page().Sum("gpuledger_unit_gpu_info", held) == 1 })
}
