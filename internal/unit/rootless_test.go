package unit_test

import (
	"bytes"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/unit"
)

const trainID, evalID = "aaaaaaaaaaaa0000000000000000000000000000000000000000000000000001", "bbbbbbbbbbbb0000000000000000000000000000000000000000000000000002"

type session struct{ *machine }

func newSession(t *testing.T, configure func(*unit.Config)) session {
	if os.Geteuid() != 0 {
		t.Skip("only root can change the owner of files")
	}
	dir := t.TempDir()
	conf := "uid = 1001\nuid = 1002\npath = /libpod-([0-9a-f]{64})(?:\\.scope)?\n"
	if err := os.WriteFile(filepath.Join(dir, "podman.conf"), []byte(conf), 0o644); err != nil {
		t.Fatal(err)
	}
	known, err := unit.LoadManagers([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	m := newMachine(t, func(c *unit.Config) {
		c.Known, c.RootlessDir, c.HeldDirs, c.Max = known, filepath.Join(dir, "names"), nil, 20
		if configure != nil {
			configure(c)
		}
	})
	m.write("podman/overlay-containers/containers.json", `[{"id": "`+containerID+`", "names": ["train"]}]`)
	return session{m}
}

func (s session) name(uid int, text string) {
	s.t.Helper()
	file := filepath.Join(s.cfg.RootlessDir, map[int]string{1001: "1001", 1002: "1002", 1003: "1003"}[uid])
	err := os.MkdirAll(s.cfg.RootlessDir, 0o755)
	if err == nil {
		err = os.WriteFile(file, []byte(text), 0o640)
	}
	if err == nil {
		err = os.Chown(file, uid, 0)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s session) run(pid int, uid, id string) {
	s.start(pid, "python3", "/user.slice/user-"+uid+".slice/user@"+uid+".service/user.slice/libpod-"+id+".scope/container", "")
}

// TestRootless checks that a trusted user can name containers below the user's own slice, but not containers of root or
// of another user.
func TestRootless(t *testing.T) {
	s := newSession(t, nil)
	s.name(1001, trainID+" train pytorch:2\n"+containerID+" mine x\n")
	s.name(1002, evalID+" train x\n"+trainID+" stolen x\n")
	s.name(1003, trainID+" train x\n")
	s.run(10, "1001", trainID)
	s.run(11, "1001", evalID)  // only the file of another user names this container
	s.run(12, "1002", evalID)  // the user 1001 also uses this name
	s.run(13, "1003", trainID) // this user is not trusted
	s.run(14, "1002", containerID)
	s.start(15, "python3", "/machine.slice/libpod-"+containerID+".scope", "")
	s.want(10, "pending")
	s.refresh()
	s.want(10, "podman/train@1001")
	s.want(11, "pending")
	s.want(12, "podman/train@1002")
	s.want(13, "user/1003")
	s.want(14, "pending")
	s.want(15, "podman/train")
	s.now += 6 * time.Second
	s.want(11, "podman/bbbbbbbbbbbb@1001")
	s.want(14, "podman/"+containerID[:12]+"@1002")
	s.refresh()
	want := gpu.UnitInfo{ContainerID: trainID, Image: "pytorch:2"}
	if diff := cmp.Diff(want, s.Units()[gpu.Unit{Manager: "podman", Name: "train@1001"}]); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

// TestRootlessNamesStay checks that a container keeps its name when the file is written late or changes.
func TestRootlessNamesStay(t *testing.T) {
	s := newSession(t, nil)
	s.remove("podman") // a machine on which root does not use Podman
	s.name(1001, trainID+" train pytorch:2\n")
	s.run(10, "1001", trainID)
	s.run(11, "1001", evalID)
	s.want(11, "pending")
	s.refresh()
	s.now += 6 * time.Second
	s.want(10, "podman/train@1001")
	s.want(11, "podman/bbbbbbbbbbbb@1001")
	s.refresh()
	if problem := problemOf(s.Mapper, "podman"); problem != "" {
		t.Errorf("problem %q although the name is final", problem)
	}
	s.name(1001, trainID+" renamed evil:1\n"+evalID+" late late:1\n")
	s.now += 10 * time.Second
	s.refresh()
	s.run(12, "1001", trainID)
	s.run(13, "1001", evalID)
	for pid, want := range map[uint32]string{10: "train", 11: "bbbbbbbbbbbb", 12: "train", 13: "bbbbbbbbbbbb"} {
		s.want(pid, "podman/"+want+"@1001")
	}
	if image := s.Units()[gpu.Unit{Manager: "podman", Name: "train@1001"}].Image; image != "pytorch:2" {
		t.Errorf("image %q, want the first image", image)
	}
}

// TestRootlessWithoutNames checks units without names. Either the directory does not exist, or pages contain no data
// about users.
func TestRootlessWithoutNames(t *testing.T) {
	for want, configure := range map[string]func(*unit.Config){
		"podman/aaaaaaaaaaaa@1001": func(c *unit.Config) { c.RootlessDir = "" },
		"podman/aaaaaaaaaaaa":      func(c *unit.Config) { c.Users = unit.UsersNone },
	} {
		s := newSession(t, nil)
		dir := s.cfg.RootlessDir
		s = newSession(t, func(c *unit.Config) { c.RootlessDir = dir; configure(c) })
		if s.cfg.RootlessDir != "" {
			s.name(1001, trainID+" train x\n")
		}
		s.run(10, "1001", trainID)
		s.refresh()
		const reason = "aaaaaaaaaaaa00 has no name: the file of the user 1001 below --units.rootless-dir does not name the container"
		if problem := problemOf(s.Mapper, "podman"); problem != reason {
			t.Errorf("problem %q, want %q", problem, reason)
		}
		s.want(10, "pending")
		s.now += 6 * time.Second
		s.want(10, want)
	}
}

func problemOf(m *unit.Mapper, manager string) string {
	for _, c := range m.Checks() {
		if c.Manager == manager {
			return c.Problem
		}
	}
	return "no such manager"
}

// names runs the script with shell scripts in place of the engines' programs. listed waits for the next call of podman
// ps, proceed lets this call continue, and event reports the start of a container.
func names(t *testing.T, dir, file, podman, docker string) (listed, proceed, event func()) {
	fifos := make(map[string]*os.File)
	for _, name := range []string{"listed", "proceed", "events"} {
		path := filepath.Join(dir, name)
		err := syscall.Mkfifo(path, 0o600)
		if err == nil {
			fifos[name], err = os.OpenFile(path, os.O_RDWR, 0)
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { fifos[name].Close() })
	}
	program := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	program("podman", `[ "$1" = events ] && exec cat `+dir+"/events\necho >"+dir+"/listed\nread -r _ <"+dir+"/proceed\n"+podman)
	program("docker", docker)
	path, err := filepath.Abs("../../manifests/examples/rootless/names.sh")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/bin/sh", path)
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin", "GPULEDGER_NAMES=" + file, "XDG_RUNTIME_DIR=" + dir}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait() // returns an error, because the process was killed
		if out.Len() > 0 {
			t.Errorf("the script printed %s", out.String())
		}
	})
	listed = func() {
		t.Helper()
		_ = fifos["listed"].SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := fifos["listed"].Read(make([]byte, 1)); err != nil {
			t.Fatal("wait for podman ps: ", err)
		}
	}
	line := func(fifo string) func() {
		return func() {
			if _, err := fifos[fifo].WriteString("id\n"); err != nil {
				t.Error(err)
			}
		}
	}
	return listed, line("proceed"), line("events")
}

// TestNamesScript checks that the script writes the names when it starts and when a container starts. It must not list
// the containers of root's Docker.
func TestNamesScript(t *testing.T) {
	dir := t.TempDir()
	file, table := filepath.Join(dir, "1001"), filepath.Join(dir, "table")
	put := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put(file, strings.Repeat("an older and longer file\n", 20))
	listed, proceed, event := names(t, t.TempDir(), file, `[ "$*" = "ps --no-trunc --format {{.ID}} {{.Names}} {{.Image}}" ] && cat `+table, "echo of root")
	for _, row := range []string{trainID + " train pytorch:2\n", trainID + " train pytorch:2\n" + evalID + " eval jax:1\n", "", evalID + " eval jax:1\n"} {
		listed()
		put(table, row)
		proceed()
		event()
		listed() // the file is complete now
		if got, err := os.ReadFile(file); err != nil || strings.TrimSuffix(string(got), "\n") != strings.TrimSuffix(row, "\n") {
			t.Errorf("file %q, %v, want %q", got, err, row)
		}
		proceed()
		event()
	}
}

func TestNamesDocker(t *testing.T) {
	dir := t.TempDir()
	socket, err := net.Listen("unix", dir+"/docker.sock")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	file := filepath.Join(dir, "1001")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	listed, proceed, event := names(t, dir, file, "exit 1", `[ "$1" = events ] || echo "$DOCKER_HOST" "$@"`)
	listed()
	proceed()
	event()
	listed()
	want := "unix://" + dir + "/docker.sock ps --no-trunc --format {{.ID}} {{.Names}} {{.Image}}\n"
	if got, err := os.ReadFile(file); err != nil || string(got) != want {
		t.Errorf("file %q, %v, want %q", got, err, want)
	}
}

// TestNamesScriptRefusesFiles checks that the script writes only to a file that root has created for
// the user.
func TestNamesScriptRefusesFiles(t *testing.T) {
	dir := t.TempDir()
	link, target := filepath.Join(dir, "link"), filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("kept"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	path, err := filepath.Abs("../../manifests/examples/rootless/names.sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{link, filepath.Join(dir, "missing"), dir} {
		cmd := exec.CommandContext(t.Context(), "/bin/sh", path)
		cmd.Env = []string{"PATH=/usr/bin:/bin", "GPULEDGER_NAMES=" + file}
		if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), file+" must be a file of the user") {
			t.Errorf("%s: %v, %s", file, err, out)
		}
	}
	if got, err := os.ReadFile(target); err != nil || string(got) != "kept" {
		t.Errorf("the target of a link was changed: %q, %v", got, err)
	}
}
