package podmapper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// errGone says that there is no such process, or none any more.
var errGone = errors.New("no such process")

// userHZ is the unit of times in /proc/<pid>/stat: 100 ticks a second, on every
// architecture that has GPUs.
const userHZ = 100

// Flags of include/linux/sched.h.
const (
	// exiting is PF_EXITING. Such a process may still wait in the driver for its
	// GPU memory to be freed.
	exiting = 0x4
	// kernelThread is PF_KTHREAD.
	kernelThread = 0x200000
)

// procTree reads processes from a proc file system mounted at root.
type procTree struct{ root string }

// stat is the part of /proc/<pid>/stat that is used.
type stat struct {
	name    string // field 2, the same bytes as in /proc/<pid>/comm
	exiting bool   // from field 9
	kernel  bool   // from field 9: a thread of the kernel, not a program
	start   uint64 // field 22, in ticks since boot
}

// pids lists the processes there are.
func (t procTree) pids() ([]uint32, error) {
	tree, err := procfs.NewFS(t.root)
	if err != nil {
		return nil, err
	}
	procs, err := tree.AllProcs()
	pids := make([]uint32, len(procs))
	for i, p := range procs {
		pids[i] = uint32(p.PID)
	}
	return pids, err
}

// bootTime returns when the machine booted, in whole seconds (/proc/stat, btime).
func (t procTree) bootTime() (time.Time, error) {
	tree, err := procfs.NewFS(t.root)
	if err != nil {
		return time.Time{}, err
	}
	s, err := tree.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(s.BootTime), 0), nil
}

// stat reads a process's name and start time in one go, so that both belong to
// the same process.
func (t procTree) stat(pid uint32) (stat, error) {
	file := t.file(pid, "stat")
	data, err := os.ReadFile(file)
	if err != nil {
		return stat{}, goneOr(err)
	}
	s, err := parseStat(data)
	if err != nil {
		return stat{}, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

// cgroupOf reads the cgroup of the process whose stat was just read, and returns
// the stat of the process it belongs to: if the PID was reused in between, the
// new owner's. The stat is valid also with an error that is not errGone. A kernel
// thread is in no pod; its cgroup, the root, has no name in a private cgroup
// namespace.
func (t procTree) cgroupOf(pid uint32, before stat) (stat, cgroup, error) {
	if before.kernel {
		return before, cgroup{host: true}, nil
	}
	for range 2 {
		c, cgroupErr := t.cgroup(pid)
		after, err := t.stat(pid)
		if err != nil {
			return before, cgroup{}, err
		}
		if after.start == before.start {
			if after.exiting && c.host { // cgroup v1 shows an exiting process in the root
				c = cgroup{}
			}
			return after, c, cgroupErr
		}
		before = after
	}
	return before, cgroup{}, errGone
}

// cgroup reads /proc/<pid>/cgroup. A process without that file is an error, not
// gone: only its stat tells.
func (t procTree) cgroup(pid uint32) (cgroup, error) {
	data, err := t.readCgroup(pid)
	if err != nil {
		return cgroup{}, err
	}
	c, err := parseCgroup(data)
	if err != nil {
		return cgroup{}, fmt.Errorf("read %s: %w", t.file(pid, "cgroup"), err)
	}
	return c, nil
}

// readCgroup returns the content of /proc/<pid>/cgroup.
func (t procTree) readCgroup(pid uint32) (string, error) {
	data, err := os.ReadFile(t.file(pid, "cgroup"))
	return string(data), err
}

func (t procTree) file(pid uint32, name string) string {
	return filepath.Join(t.root, strconv.FormatUint(uint64(pid), 10), name)
}

// goneOr turns the errors of a process that ended before or during a read into
// errGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) {
		return errGone
	}
	return err
}

// parseStat reads /proc/<pid>/stat. The name stands in parentheses and may hold
// any bytes, parentheses and newlines too. Package procfs has a parser for the
// file, but it panics on a line that ends in the name.
func parseStat(data []byte) (stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return stat{}, fmt.Errorf("no process name in %.200q", data)
	}
	field := bytes.Fields(data[end+1:]) // from field 3 on
	if len(field) < 20 {
		return stat{}, fmt.Errorf("too short: %.200q", data)
	}
	flags, err := strconv.ParseUint(string(field[9-3]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("flags: %w", err)
	}
	start, err := strconv.ParseUint(string(field[22-3]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("start time: %w", err)
	}
	return stat{
		name:    string(data[open+1 : end]),
		exiting: flags&exiting != 0,
		kernel:  flags&kernelThread != 0,
		start:   start,
	}, nil
}
