package podmapper_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/procfs"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/podmapper"
)

// TestRealCgroups starts real processes in real cgroups of every version that the machine has,
// with the names that the kubelet and the runtimes use.
func TestRealCgroups(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root may make cgroups")
	}
	if _, err := exec.LookPath("sleep"); err != nil {
		t.Skip(err)
	}
	// Unique names: the test may run twice on a machine, and reads all its processes.
	trainer := trainer
	uid, id := fmt.Sprintf("3f1c2b9a-7d54-4e0b-9c66-%012x", os.Getpid()), fmt.Sprintf("%064x", os.Getpid())
	trainer.UID = uid
	slice := strings.ReplaceAll(uid, "-", "_")
	tests := []struct {
		name, path string
		want       gpu.Owner
	}{
		{"cgroupfs", "kubepods/burstable/pod" + uid + "/" + id, trainer},
		{"systemd", "kubepods.slice/kubepods-pod" + slice + ".slice/cri-containerd-" + id + ".scope", trainer},
		{"CRI-O", "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-pod" + slice + ".slice/crio-" + id + ".scope/container", trainer},
		{"Slurm inside", "kubepods/pod" + uid + "/" + id + "/system.slice/slurmstepd.scope/job_1/step_0", trainer},
		{"service", "system.slice/nvidia-persistenced.service", host},
		{"Docker", "docker/" + id, gpu.Owner{Kind: gpu.OwnerHost}},
	}
	for version, hierarchy := range hierarchies(t) {
		for _, tt := range tests {
			t.Run(version+" "+tt.name, func(t *testing.T) {
				n := newNode(t, func(c *podmapper.Config) { c.ProcFS = "/proc" })
				n.link(trainer, id)
				n.serve(holds(holder(trainer, "", gpuA)))
				sleeper := startSleeper(t, newCgroup(t, hierarchy, tt.path))
				inPod := tt.want.Kind == gpu.OwnerPod
				n.poll()
				n.wantHeld(exclusive(gpuA, trainer, inPod))

				p := n.process(uint32(sleeper.Process.Pid))
				wantOwner(t, p.Owner, tt.want)
				if p.Name != "sleep" || time.Since(p.StartTime).Abs() > hangTimeout {
					t.Errorf("process %q began %v, want a sleep that began now", p.Name, p.StartTime)
				}
				stop(t, sleeper)
				n.wantHeld(exclusive(gpuA, trainer, false))
				if _, ok := n.Process(p.ID.PID); ok {
					t.Error("Process found a process that ended")
				}
			})
		}
	}
}

// hierarchies returns the writable cgroup hierarchies by version, or skips the test.
func hierarchies(t *testing.T) map[string]string {
	t.Helper()
	mounts, err := procfs.GetMounts()
	check(t, err)
	found := make(map[string]string)
	var refused error
	for _, m := range mounts {
		version := map[string]string{"cgroup": "v1", "cgroup2": "v2"}[m.FSType]
		if _, cpuset := m.SuperOptions["cpuset"]; version == "" || cpuset || found[version] != "" {
			continue // a new cpuset has no CPUs, and takes no process
		}
		try := filepath.Join(m.MountPoint, "gpuledger-try-"+strconv.Itoa(os.Getpid()))
		if err := errors.Join(os.Mkdir(try, 0o755), os.Remove(try)); err != nil {
			refused = err
			continue
		}
		found[version] = m.MountPoint
	}
	if len(found) == 0 {
		t.Skip("no cgroup can be made here:", refused)
	}
	t.Log("cgroups:", found)
	return found
}

// newCgroup creates a cgroup below one of this test's own, which is named like the kubelet's root. It is removed at the end of the test.
func newCgroup(t *testing.T, hierarchy, path string) string {
	t.Helper()
	dir := filepath.Join(hierarchy, fmt.Sprintf("kubelet-test-%d", os.Getpid()))
	for _, segment := range append([]string{""}, strings.Split(path, "/")...) {
		dir = filepath.Join(dir, segment)
		err := os.Mkdir(dir, 0o755)
		if errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
			t.Skip("no cgroup can be made here:", err)
		}
		check(t, err)
		made := dir
		t.Cleanup(func() { removeCgroup(t, made) })
	}
	return dir
}

// removeCgroup removes an empty cgroup, which is busy for a moment after its last process ended.
func removeCgroup(t *testing.T, dir string) {
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

func startSleeper(t *testing.T, cgroup string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	check(t, cmd.Start())
	t.Cleanup(func() { stop(t, cmd) })
	pid := strconv.Itoa(cmd.Process.Pid)
	if err := os.WriteFile(filepath.Join(cgroup, "cgroup.procs"), []byte(pid), 0o644); err != nil {
		t.Skip("no process can be moved here:", err)
	}
	return cmd
}

// stop ends a process and waits, once.
func stop(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if cmd.ProcessState != nil {
		return
	}
	check(t, cmd.Process.Kill())
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) {
		t.Error(err)
	}
}
