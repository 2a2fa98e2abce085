package podmapper

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// initialPIDs is how the kernel names the PID namespace of the machine
// (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// SeesHost reports whether the driver's PIDs are those of the mapper's /proc. The
// driver names processes in the namespace of who asks, and leaves out those that
// are not visible there, so that one of our own shows nobody else's processes.
func (m *Mapper) SeesHost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seesHost == nil {
		m.seesHost = new(checkHostPIDs(m.tree) == nil)
	}
	return *m.seesHost
}

// watchHostPIDs looks whose PIDs we see.
func (m *Mapper) watchHostPIDs() bool {
	began := m.cfg.Now()
	err := checkHostPIDs(m.tree)
	m.cfg.Stages.Observe(stage.HostPIDs, began, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seesHost = new(err == nil)
	return err == nil
}

// checkHostPIDs returns an error unless the tree shows the processes of the host, in
// the PID namespace that is also ours.
func checkHostPIDs(t proc.Tree) error {
	namespace, err := os.Readlink(filepath.Join(t.Root, "self", "ns", "pid"))
	if err != nil {
		return fmt.Errorf("read own PID namespace: %w", err)
	}
	if namespace == initialPIDs || isOurs(t) && firstIsOutside(t) {
		return nil
	}
	return fmt.Errorf("PID namespace %s is not the host's, so processes of other pods are not visible and energy is charged by allocation only; "+
		"set hostPID: true on the pod", namespace)
}

// isOurs reports whether the tree is of our own PID namespace, the host's or not. In
// that of the host, mounted elsewhere, we have a second NSpid in our status
// (proc_pid_status(5)), which kernels before 4.1 do not tell.
func isOurs(t proc.Tree) bool {
	status, err := os.ReadFile(filepath.Join(t.Root, "self", "status"))
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	for line := range strings.Lines(string(status)) {
		if pids, ok := strings.CutPrefix(line, "NSpid:"); ok {
			return len(strings.Fields(pids)) == 1
		}
	}
	return true
}

// firstIsOutside reports whether process 1 is outside our own pod, as it is when
// the host is itself a container (kind). In a PID namespace of our own it is our
// container's first process, or our pod's pause. From a private cgroup namespace
// only what is outside begins with "/..".
func firstIsOutside(t proc.Tree) bool {
	first, err1 := os.ReadFile(t.File(1, "cgroup"))
	own, err2 := os.ReadFile(filepath.Join(t.Root, "self", "cgroup"))
	if err1 != nil || err2 != nil {
		return false
	}
	c, err := parseCgroup(string(first))
	if err != nil || !c.host {
		return false
	}
	self, _ := parseCgroup(string(own))
	return self.podUID != "" || strings.Contains(string(first), ":/../")
}
