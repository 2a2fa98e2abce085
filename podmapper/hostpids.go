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

// initialPIDs is the kernel's name of the initial PID namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
const initialPIDs = "pid:[4026531836]"

// SeesHost reports whether the PIDs from the driver are the PIDs in the mapper's /proc. The driver reports only
// processes that are visible in the caller's PID namespace. Therefore, in a container with its own PID namespace, the
// exporter gets no processes of other containers.
func (m *Mapper) SeesHost() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seesHost == nil {
		m.seesHost = new(checkHostPIDs(m.tree) == nil)
	}
	return *m.seesHost
}

func (m *Mapper) observeHostPIDs() bool {
	began := m.cfg.Now()
	err := checkHostPIDs(m.tree)
	m.cfg.Stages.Observe(stage.HostPIDs, began, err)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.seesHost = new(err == nil)
	return err == nil
}

// checkHostPIDs returns an error unless the /proc tree meets three conditions. It must contain the host's processes,
// must not hide processes of other users, and must contain the PIDs of the exporter's own PID namespace.
func checkHostPIDs(t proc.Tree) error {
	namespace, err := os.Readlink(filepath.Join(t.Root, "self", "ns", "pid"))
	if err != nil {
		return fmt.Errorf("read own PID namespace: %w", err)
	}
	if namespace == initialPIDs || isOwnNamespace(t) && initIsOutsidePod(t) {
		return checkHidden(t, mayTrace())
	}
	return fmt.Errorf("PID namespace %s differs from the host's namespace, so processes of other pods are not visible and energy is charged by allocation only; "+
		"set hostPID: true on the pod", namespace)
}

// isOwnNamespace reports whether the tree belongs to the exporter's own PID namespace. In the tree of another
// namespace, the line NSpid in the exporter's status file contains two PIDs (proc_pid_status(5)). Kernels before 4.1 do
// not write NSpid.
func isOwnNamespace(t proc.Tree) bool {
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

// initIsOutsidePod reports whether process 1 is outside the exporter's pod. This is the case if the host itself is a
// container, as with kind. In a pod's PID namespace, process 1 is the container's first process or the pod's pause
// process. If the exporter has a private cgroup namespace, the path of a cgroup outside this namespace begins with
// "/..".
func initIsOutsidePod(t proc.Tree) bool {
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
