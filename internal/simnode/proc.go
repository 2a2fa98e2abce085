package simnode

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// procTree simulates a /proc directory. Each process directory is prepared elsewhere and then renamed. Therefore
// processes appear and disappear atomically, as in the real /proc.
type procTree struct {
	dir, scratch string
	// private is set if the tree shows the private PID namespace of the exporter's container. This namespace has only
	// one process.
	private bool
}

const exporter = "gpuledger"

// Processes link to these PID namespaces. The inode number of the initial namespace is a constant (PROC_PID_INIT_INO in
// the kernel).
const (
	initialNamespace = "pid:[4026531836]"
	privateNamespace = "pid:[4026532781]"
)

// write creates the files that do not belong to a process: /proc/stat with the boot time, and the boot id.
func (t procTree) write(boot string, start gpu.Instant) error {
	if err := os.MkdirAll(t.scratch, 0o755); err != nil {
		return err
	}
	if err := writeFiles(filepath.Join(t.dir, "sys/kernel/random"), map[string]string{"boot_id": boot}); err != nil {
		return err
	}
	btime := start.Wall.Add(-start.Boot).Unix()
	return writeFiles(t.dir, map[string]string{"stat": fmt.Sprintf(
		"cpu  4705 356 584 3699176 23 23 0 0 0 0\ncpu0 4705 356 584 3699176 23 23 0 0 0 0\nintr 0\nctxt 22848\n"+
			"btime %d\nprocesses 26442\nprocs_running 1\nprocs_blocked 0\nsoftirq 0 0 0 0 0 0 0 0 0 0 0", btime)})
}

// view reports whether the tree shows a process. In a private PID namespace, the exporter is PID 1. Its cgroup is the
// root of its cgroup namespace.
func (t procTree) view(p *process) (shown *process, ok bool) {
	if !t.private {
		return p, true
	}
	inside := *p
	inside.id.PID, inside.parent, inside.cgroup = 1, 0, "/"
	return &inside, p.comm == exporter
}

func (t procTree) start(sc *Scenario, p *process) error {
	p, ok := t.view(p)
	if !ok {
		return nil
	}
	namespace := initialNamespace
	if t.private {
		namespace = privateNamespace
	}
	dir := filepath.Join(t.scratch, p.name())
	files := map[string]string{"stat": p.stat(), "cgroup": p.cgroupFile(), "comm": p.comm}
	if p.title != "" {
		files["cmdline"] = p.title
	}
	if p.uid != 0 {
		files["status"] = fmt.Sprintf("Name:\t%s\nUid:\t%d\t%[2]d\t%[2]d\t%[2]d", p.comm, p.uid)
	}
	if err := writeFiles(dir, files); err != nil {
		return err
	}
	if err := os.Mkdir(filepath.Join(dir, "ns"), 0o755); err != nil {
		return err
	}
	if err := os.Symlink(namespace, filepath.Join(dir, "ns", "pid")); err != nil {
		return err
	}
	if err := sc.addFiles(dir, p); err != nil {
		return err
	}
	if err := os.Rename(dir, filepath.Join(t.dir, p.name())); err != nil {
		return err
	}
	if p.comm != exporter {
		return nil
	}
	return os.Symlink(p.name(), filepath.Join(t.dir, "self"))
}

func (t procTree) end(p *process) error {
	p, ok := t.view(p)
	if !ok {
		return nil
	}
	dir := filepath.Join(t.scratch, p.name())
	if err := os.Rename(filepath.Join(t.dir, p.name()), dir); err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

func (p *process) name() string { return strconv.FormatUint(uint64(p.id.PID), 10) }

func (p *process) cgroupFile() string {
	if strings.HasPrefix(p.cgroup, "/") {
		return "0::" + p.cgroup
	}
	return p.cgroup
}

// The line in /proc/<pid>/stat has 52 fields (proc(5)). Field 2 is the process name without quotes. Field 22 is the
// start time.
func (p *process) stat() string {
	return fmt.Sprintf("%d (%s) S %d %d %d 0 -1 4194560 "+ // 1-9
		"1450 0 3 0 12 7 0 0 20 0 1 0 "+ // 10-21
		"%d 12845056 2210 18446744073709551615 1 1 0 0 0 0 "+ // 22-31
		"0 4096 17475 0 0 0 17 3 0 0 0 0 0 0 0 0 0 0 0 0 0", // 32-52
		p.id.PID, p.comm, p.parent, p.id.PID, p.id.PID, p.id.Start)
}
