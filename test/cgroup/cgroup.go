// Package cgroup makes real cgroups with real processes for tests.
package cgroup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"
)

// hangTimeout is long enough for a busy machine.
const hangTimeout = 5 * time.Minute

// Hierarchies returns the directories of writable cgroup hierarchies by version, v1 or v2. Without a writable
// hierarchy, it skips the test.
func Hierarchies(t *testing.T) map[string]string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root may create cgroups")
	}
	mounts, err := procfs.GetMounts()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]string)
	var refused error
	for _, m := range mounts {
		version := map[string]string{"cgroup": "v1", "cgroup2": "v2"}[m.FSType]
		if _, cpuset := m.SuperOptions["cpuset"]; version == "" || cpuset || found[version] != "" {
			continue // a new cpuset has no CPUs, so no process can be moved to it
		}
		try := filepath.Join(m.MountPoint, "gpuledger-try-"+strconv.Itoa(os.Getpid()))
		if err := errors.Join(os.Mkdir(try, 0o755), os.Remove(try)); err != nil {
			refused = err
			continue
		}
		found[version] = m.MountPoint
	}
	if len(found) == 0 {
		t.Skip("no cgroup can be created here:", refused)
	}
	t.Log("cgroups:", found)
	return found
}

// New creates a cgroup below a hierarchy and returns its directory. The cgroup is removed at the end of the test.
func New(t *testing.T, hierarchy, path string) string {
	t.Helper()
	dir := hierarchy
	for segment := range strings.SplitSeq(path, "/") {
		dir = filepath.Join(dir, segment)
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
			t.Skip("no cgroup can be created here:", err)
		}
		if err != nil {
			t.Fatal(err)
		}
		made := dir
		t.Cleanup(func() { remove(t, made) })
	}
	return dir
}

// remove retries, because a cgroup stays busy for a moment after its last process ended.
func remove(t *testing.T, dir string) {
	for end := time.Now().Add(hangTimeout); ; {
		err := os.Remove(dir)
		if err == nil {
			return
		}
		if !errors.Is(err, syscall.EBUSY) || time.Now().After(end) {
			t.Error(err)
			return
		}
	}
}

// Start starts an idle process in a cgroup. The process ends with the test, unless the test ends it earlier.
func Start(t *testing.T, cgroup string) *exec.Cmd {
	t.Helper()
	path, err := exec.LookPath("sleep")
	if err != nil {
		t.Skip(err)
	}
	cmd := exec.Command(path, "600")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Stop(t, cmd) })
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		t.Skip("no process can be moved here:", err)
	}
	return cmd
}

// Stop ends a process and waits for it. A second call has no effect.
func Stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Error(err)
	}
}
