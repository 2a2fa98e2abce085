// Package proc reads the proc file system: processes, their start times and the text of
// their cgroups. Owners, such as pods, are the subject of other packages.
package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
)

// ErrGone is returned for a process that does not exist, or no longer.
var ErrGone = errors.New("no such process")

// UserHZ is the unit of times in /proc/<pid>/stat: 100 ticks a second, on every
// architecture that has GPUs.
const UserHZ = 100

// Flags of include/linux/sched.h.
const (
	// exiting is PF_EXITING. Such a process may still wait in the driver for its
	// GPU memory to be freed.
	exiting = 0x4
	// kernelThread is PF_KTHREAD.
	kernelThread = 0x200000
)

// maxPIDs is the kernel's PID_MAX_LIMIT.
const maxPIDs = 4 << 20

// Tree reads processes from a proc file system mounted at Root.
type Tree struct{ Root string }

// Stat is the part of /proc/<pid>/stat that is used.
type Stat struct {
	Name    string // field 2, the same bytes as in /proc/<pid>/comm
	Exiting bool   // from field 9
	Kernel  bool   // from field 9: a thread of the kernel, not a program
	Start   uint64 // field 22, in ticks since boot
}

// PIDs lists the processes, in ascending order.
func (t Tree) PIDs() ([]uint32, error) {
	dir, err := os.Open(t.Root)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(maxPIDs)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	pids := make([]uint32, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.ParseUint(name, 10, 32); err == nil {
			pids = append(pids, uint32(pid))
		}
	}
	slices.Sort(pids)
	return pids, nil
}

// BootTime returns when the machine booted, in whole seconds (/proc/stat, btime).
func (t Tree) BootTime() (time.Time, error) {
	tree, err := procfs.NewFS(t.Root)
	if err != nil {
		return time.Time{}, err
	}
	s, err := tree.Stat()
	if err != nil {
		return time.Time{}, err
	}
	return time.Unix(int64(s.BootTime), 0), nil
}

// Stat reads a process's name and start time in one go, so that both belong to
// the same process.
func (t Tree) Stat(pid uint32) (Stat, error) { return readStat(t.File(pid, "stat")) }

// readStat reads the stat of a process or of one of its threads.
func readStat(file string) (Stat, error) {
	var buf [fileSize]byte
	data, err := readFile(file, buf[:0])
	if err != nil {
		return Stat{}, goneOr(err)
	}
	s, err := parseStat(data)
	if err != nil {
		return Stat{}, fmt.Errorf("read %s: %w", file, err)
	}
	return s, nil
}

// Cgroup returns the content of /proc/<pid>/cgroup of the process whose stat was just read,
// and the stat of the process that it belongs to: if the PID was reused in between, that of
// the new process. The stat is valid also with an error that is not ErrGone. A thread of the
// kernel has no content: its cgroup, the root, has no name in a private cgroup namespace.
func (t Tree) Cgroup(pid uint32, before Stat) (Stat, string, error) {
	if before.Kernel {
		return before, "", nil
	}
	for range 2 {
		text, cgroupErr := readText(t.File(pid, "cgroup"))
		after, err := t.Stat(pid)
		if err != nil {
			return before, "", err
		}
		if after.Start == before.Start {
			if after.Exiting && inRoot(text) { // cgroup v1 shows an exiting thread in the root
				text = t.cgroupOfThreads(pid)
			}
			return after, text, cgroupErr
		}
		before = after
	}
	return before, "", ErrGone
}

// inRoot reports whether a hierarchy of cgroup v1 shows the root, and no hierarchy anything
// else.
func inRoot(cgroup string) bool {
	v1 := false
	for line := range strings.Lines(cgroup) {
		hierarchy, rest, _ := strings.Cut(line, ":")
		_, path, _ := strings.Cut(rest, ":")
		if strings.Trim(path, "/.\n") != "" {
			return false
		}
		v1 = v1 || hierarchy != "0"
	}
	return v1
}

// maxThreads is how many threads of a process are read to find one that still runs.
const maxThreads = 32

// cgroupOfThreads returns the cgroup of a process whose main thread has exited from a thread
// that still runs. It is empty if there is none among the first threads.
func (t Tree) cgroupOfThreads(pid uint32) string {
	tasks, err := os.Open(t.File(pid, "task"))
	if err != nil {
		return ""
	}
	defer tasks.Close()
	tids, _ := tasks.Readdirnames(maxThreads)
	for _, tid := range tids {
		st, err := readStat(filepath.Join(tasks.Name(), tid, "stat"))
		if err != nil || st.Exiting {
			continue
		}
		if text, err := readText(filepath.Join(tasks.Name(), tid, "cgroup")); err == nil {
			return text
		}
	}
	return ""
}

// readText returns the content of a file.
func readText(file string) (string, error) {
	var buf [fileSize]byte
	data, err := readFile(file, buf[:0])
	return string(data), err
}

// File returns the path of a file of a process.
func (t Tree) File(pid uint32, name string) string {
	return filepath.Join(t.Root, strconv.FormatUint(uint64(pid), 10), name)
}

// fileSize is room for the files of most processes, in bytes.
const fileSize = 2048

// readFile appends a file to buf, which may lie on the stack. Thousands of processes are
// read in one poll, and os.ReadFile leaves a kilobyte of garbage behind each.
func readFile(name string, buf []byte) ([]byte, error) {
	fd, err := uninterrupted(func() (int, error) { return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	defer unix.Close(fd)
	for {
		buf = slices.Grow(buf, 1)
		n, err := uninterrupted(func() (int, error) { return unix.Read(fd, buf[len(buf):cap(buf)]) })
		if err != nil {
			return nil, &fs.PathError{Op: "read", Path: name, Err: err}
		}
		if n == 0 {
			return buf, nil
		}
		buf = buf[:len(buf)+n]
	}
}

// uninterrupted makes a system call again while a signal interrupts it.
func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// goneOr turns the errors of a process that ended before or during a read into
// ErrGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// parseStat reads /proc/<pid>/stat. The name stands in parentheses and may hold
// any bytes, parentheses and newlines too. Package procfs has a parser for the
// file, but it panics on a line that ends in the name.
func parseStat(data []byte) (Stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("no process name in %.200q", string(data))
	}
	var field [23][]byte // by number; 3 is the first behind the name
	rest := bytes.TrimSpace(data[end+1:])
	for i := 3; i < len(field); i++ {
		field[i], rest, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	}
	if len(field[22]) == 0 {
		return Stat{}, fmt.Errorf("too few fields in %.200q", string(data))
	}
	flags, err := strconv.ParseUint(string(field[9]), 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("flags: %w", err)
	}
	start, err := strconv.ParseUint(string(field[22]), 10, 64)
	if err != nil {
		return Stat{}, fmt.Errorf("start time: %w", err)
	}
	return Stat{
		Name:    string(data[open+1 : end]),
		Exiting: flags&exiting != 0,
		Kernel:  flags&kernelThread != 0,
		Start:   start,
	}, nil
}
