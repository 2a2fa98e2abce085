//go:build e2e

package kubelet_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// kubeletRoot is the kubelet's folder. Its path is fixed, because the device plugin API defines the path of a folder in
// it.
const kubeletRoot = "/var/lib/kubelet"

// nodeIP exists only in the network namespace of the test. The kubelet rejects loopback addresses, so this is an
// address for documentation (RFC 5737).
const nodeIP = "192.0.2.1"

// A kubelet changes these kernel settings for the whole machine.
var kernelSettings = []string{
	"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
}

// obstacle returns the reason why the tests cannot run on this machine, or nil.
func obstacle() error {
	if os.Getuid() != 0 {
		return errors.New("a kubelet must run as root")
	}
	for _, program := range []string{"containerd", "ctr", "runc", "ip"} {
		if _, err := exec.LookPath(program); err != nil {
			return err
		}
	}
	if _, err := os.Stat(filepath.Join(os.Getenv(programsEnv), "kubelet")); err != nil {
		return errors.New("the kubelet is not built: run make e2e-kubelet")
	}
	if files, _ := os.ReadDir(kubeletRoot); len(files) > 0 {
		return fmt.Errorf("%s is not empty: this machine is, or was, a Kubernetes node", kubeletRoot)
	}
	if err := removeCgroups(); err != nil {
		return fmt.Errorf("cgroups of pods are in use: %w", err)
	}
	for _, h := range hierarchies() {
		probe := filepath.Join(h, "gpuledger-e2e")
		if err := os.Mkdir(probe, 0o755); err != nil {
			return fmt.Errorf("create a cgroup: %w", err)
		}
		_ = os.Remove(probe)
	}
	if out, err := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "true").CombinedOutput(); err != nil {
		return fmt.Errorf("create namespaces: %s", out)
	}
	return nil
}

// moveIn prepares the mounts, kernel settings and network in the new namespaces.
func moveIn(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts private: %w", err)
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	// An empty /run also hides systemd, so no program lets systemd manage cgroups.
	for _, path := range []string{"/run", "/var/log", kubeletRoot} {
		if err := unix.Mount("tmpfs", path, "tmpfs", 0, "mode=0755"); err != nil {
			return fmt.Errorf("mount %s: %w", path, err)
		}
	}
	for _, s := range kernelSettings {
		if err := shadow(dir, filepath.Join("/proc/sys", s)); err != nil {
			return fmt.Errorf("shadow %s: %w", s, err)
		}
	}
	for _, args := range []string{"link set lo up", "address add " + nodeIP + "/32 dev lo"} {
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %s", args, out)
		}
	}
	return nil
}

// shadow mounts a copy over a kernel file, so that writes do not change the machine's own settings.
func shadow(dir, file string) error {
	value, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	kept := filepath.Join(dir, filepath.Base(file))
	if err := os.WriteFile(kept, value, 0o644); err != nil {
		return err
	}
	return unix.Mount(kept, file, "", unix.MS_BIND, "")
}

// hierarchies returns the mount points of cgroups: one for each controller in version 1, or only one in version 2.
func hierarchies() []string {
	const root = "/sys/fs/cgroup"
	if _, err := os.Stat(root + "/cgroup.controllers"); err == nil {
		return []string{root}
	}
	found, _ := filepath.Glob(root + "/*/cgroup.procs") // the pattern is valid, so there is no error
	for i, f := range found {
		found[i] = filepath.Dir(f)
	}
	return found
}

// removeCgroups removes the cgroups that a kubelet leaves in every hierarchy. It cannot remove a cgroup that contains
// processes.
func removeCgroups() error {
	var errs []error
	for _, h := range hierarchies() {
		errs = append(errs, removeCgroup(filepath.Join(h, "kubepods")))
	}
	return errors.Join(errs...)
}

func removeCgroup(dir string) error {
	children, err := os.ReadDir(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, c := range children {
		if c.IsDir() {
			err = errors.Join(err, removeCgroup(filepath.Join(dir, c.Name())))
		}
	}
	return errors.Join(err, unix.Rmdir(dir))
}
