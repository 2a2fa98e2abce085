package podmapper_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/podmapper"
	"github.com/gpuledger/gpuledger/test/cgroup"
)

// exitMainThread is an environment variable. If it is set, the main thread of the test program exits immediately, and
// the other threads continue.
const exitMainThread = "GPULEDGER_TEST_EXIT_MAIN_THREAD"

// This function must run on the main thread. Go initialises package variables on this thread.
var _ = func() bool {
	if os.Getenv(exitMainThread) != "" {
		_, _, _ = syscall.Syscall(syscall.SYS_EXIT, 0, 0, 0)
	}
	return true
}()

// TestRealMainThreadExited checks, with each version of cgroups on the machine, that a process still belongs to its
// container when its main thread has exited.
func TestRealMainThreadExited(t *testing.T) {
	trainer := trainer
	uid, id := fmt.Sprintf("3f1c2b9a-7d54-4e0b-9c67-%012x", os.Getpid()), fmt.Sprintf("%064x", os.Getpid())
	trainer.UID = uid
	for version, hierarchy := range cgroup.Hierarchies(t) {
		t.Run(version, func(t *testing.T) {
			n := newNode(t, func(c *podmapper.Config) { c.ProcFS = "/proc" })
			n.link(trainer, id)
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), exitMainThread+"=1")
			check(t, cmd.Start())
			t.Cleanup(func() { cgroup.Stop(t, cmd) })
			pid := strconv.Itoa(cmd.Process.Pid)
			awaitZombie(t, pid)
			dir := cgroup.New(t, hierarchy, fmt.Sprintf("kubelet-test-%d/kubepods/pod%s/%s", os.Getpid(), uid, id))
			t.Cleanup(func() { cgroup.Stop(t, cmd) }) // this cleanup runs before the cgroup is removed
			check(t, os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(pid), 0o644))
			wantOwner(t, n.process(uint32(cmd.Process.Pid)).Owner, trainer)
		})
	}
}

func awaitZombie(t *testing.T, pid string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); runtime.Gosched() {
		stat, err := os.ReadFile(filepath.Join("/proc", pid, "stat"))
		check(t, err)
		if strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	t.Fatal("the main thread has not exited within a minute")
}
