package app_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/test/golden"
)

// Containers on the inspected machine. Docker's directory contains a file only for the first container.
const (
	namedContainer   = "5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e5d0e"
	unnamedContainer = "abababababab0123456789abababababababababababababababababababab99"
)

type inspected struct {
	t   *testing.T
	dir string
}

func newInspected(t *testing.T) *inspected {
	m := &inspected{t, t.TempDir()}
	m.start(1, "systemd", "/init.scope")
	m.write("docker/containers/"+namedContainer+"/config.v2.json", `{"Name":"/train"}`)
	m.write("docker/containers/"+namedContainer+"/hostconfig.json", `{}`)
	m.write("managers.d/batchd.conf", "unit = job id\npath = /batchd/.*_([0-9]+)\n")
	return m
}

func (m *inspected) write(name, text string) {
	m.t.Helper()
	path := filepath.Join(m.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		m.t.Fatal(err)
	}
}

func (m *inspected) start(pid int, name, cgroup string) {
	dir := "proc/" + strconv.Itoa(pid) + "/"
	m.write(dir+"stat", fmt.Sprintf("%d (%s) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 0 20 0 1 0 %d 0 0", pid, name, pid))
	m.write(dir+"cgroup", "0::"+cgroup+"\n")
	m.write(dir+"cmdline", name+"\x00")
	m.write(dir+"status", "Name:\t"+name+"\nUid:\t1001\t1001\t1001\t1001\n")
}

// run runs a command and returns its output, with DIR in place of the path of the machine's directory.
func (m *inspected) run(args ...string) (string, error) {
	m.t.Helper()
	args = append(args, "--path.procfs="+m.dir+"/proc", "--kubelet.pod-resources-socket=", "--units.managers="+m.dir+"/managers.d",
		"--units.docker-root="+m.dir+"/docker", "--units.podman-root="+m.dir+"/podman", "--units.podman-run="+m.dir+"/podman-run",
		"--units.rootless-dir="+m.dir+"/names")
	cfg, err := app.Parse(args, func(string) string { return "" })
	if err != nil {
		return "", err
	}
	show := app.ShowUnits
	if cfg.Command == app.DoctorCommand {
		show = app.Doctor
	}
	var out strings.Builder
	err = show(m.t.Context(), cfg.Inspect, &out)
	return strings.ReplaceAll(out.String(), m.dir, "DIR"), err
}

// TestUnitsCommand checks the list of managers and the explanation of an owner. The explanation must contain the rule
// that determines the owner. For every other rule, it must contain the reason why the rule does not apply.
func TestUnitsCommand(t *testing.T) {
	m := newInspected(t)
	own := "/user.slice/user-500.slice/user@500.service"
	processes := []struct{ name, cgroup string }{
		{"job", "/system.slice/slurmstepd.scope/job_815/step_0/user/task_0"},
		{"own-manager", "/batchd/grace_77/x"},
		{"container", "/research/" + namedContainer},
		{"imitation", own + "/batchd/grace_77"},
		{"untrusted", own + "/app.slice/shell-0-f2rKx9.service"},
		{"slot", "/system.slice/condor.service/condor_execute_slot1_1@exec7.example.com"},
		{"host", "/system.slice/run-r1.scope/batchd/grace_77"},
	}
	text, err := m.run(app.UnitsCommand)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range processes {
		m.start(100+i, p.name, p.cgroup)
	}
	for i := range processes {
		one, err := m.run(app.UnitsCommand, "--explain="+strconv.Itoa(100+i))
		if err != nil {
			t.Error(err)
		}
		text += "\n" + one
	}
	golden.Check(t, "units.txt", []byte(text))

	for args, want := range map[string]string{"--explain=99": "process 99: ", "--units=batchds": "--units=batchds: must be auto, none, or a list of", "--explain=x": "-explain"} {
		if _, err := m.run(app.UnitsCommand, args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %q", args, err, want)
		}
	}
	m.write("managers.d/batchd.conf", "path = /.*/.*_([0-9]+)\n")
	for _, command := range []string{app.UnitsCommand, app.DoctorCommand} {
		if _, err := m.run(command); err == nil || !strings.Contains(err.Error(), "batchd.conf:1: ") {
			t.Errorf("%s with a broken file: %v, want an error with its line", command, err)
		}
	}
}

func TestDoctor(t *testing.T) {
	m := newInspected(t)
	check := func(problem string, lines ...string) {
		t.Helper()
		out, err := m.run(app.DoctorCommand)
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Errorf("error %v, want %q", err, problem)
		}
		for _, line := range lines {
			if !strings.Contains(strings.Join(strings.Fields(out), " "), line) {
				t.Errorf("no %q in\n%s", line, out)
			}
		}
	}
	check("", "- batchd no unit runs here - condor no unit", "- pbs no unit runs here")
	m.start(20, "python3", "/batchd/grace_78")
	m.start(10, "python3", "/batchd/grace_77")
	m.start(11, "python3", "/batchd/grace_77")
	m.start(30, "python3", "/docker/"+namedContainer)
	check("", "ok docker units: 1, such as docker/train with the process 30", "ok batchd units: 2, such as batchd/77 with the process 10", "- slurm no unit runs here")
	m.start(40, "python3", "/system.slice/slurmstepd.scope/s7PQRSTVWXYZ01/step_0/user/task_0")
	check("slurm: s7PQRSTVWXYZ01 has no name: no slurmstepd", "! slurm s7PQRSTVWXYZ01 has no name")
	m.start(41, "slurmstepd", "/system.slice/slurmstepd.scope/s7PQRSTVWXYZ01/step_0/slurm")
	m.write("proc/41/cmdline", "slurmstepd: [815.0]\x00")
	check("", "ok slurm units: 1, such as slurm/815 with the process 40")
	m.start(50, "python3", "/docker/"+unnamedContainer)
	check("cannot read some units: ", "! docker abababababab01 has no name: no file below --units.docker-root describes the container")
}

// TestDoctorRootless checks that the command doctor reads the container names of a trusted user.
func TestDoctorRootless(t *testing.T) {
	m := newInspected(t)
	m.write("managers.d/podman.conf", "uid = 1001\npath = /libpod-([0-9a-f]{64})(?:\\.scope)?\n")
	m.start(60, "python3", "/user.slice/user-1001.slice/user@1001.service/user.slice/libpod-"+unnamedContainer+".scope/container")
	out, err := m.run(app.DoctorCommand)
	const reason = "the file of the user 1001 below --units.rootless-dir does not name the container"
	if err == nil || !strings.Contains(out, reason) {
		t.Errorf("error %v, output without %q:\n%s", err, reason, out)
	}
	m.write("names/1001", unnamedContainer+" train pytorch:2\n")
	if err := os.Chown(m.dir+"/names/1001", 1001, 0); errors.Is(err, os.ErrPermission) {
		t.Skip("only root can change the owner of a file:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	if out, err := m.run(app.DoctorCommand); err != nil || !strings.Contains(out, "podman/train@1001 with the process 60") {
		t.Errorf("error %v, output without the name:\n%s", err, out)
	}
}
