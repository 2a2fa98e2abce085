package podmapper

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"
	"unique"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"
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

// maxPIDs is the kernel's PID_MAX_LIMIT.
const maxPIDs = 4 << 20

// procTree reads processes from a proc file system mounted at root.
type procTree struct{ root string }

// stat is the part of /proc/<pid>/stat that is used.
type stat struct {
	name    string // field 2, the same bytes as in /proc/<pid>/comm
	exiting bool   // from field 9
	kernel  bool   // from field 9: a thread of the kernel, not a program
	start   uint64 // field 22, in ticks since boot
}

// pids lists the processes there are, in ascending order.
func (t procTree) pids() ([]uint32, error) {
	names, err := readNames(t.root, maxPIDs)
	if err != nil {
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
func (t procTree) stat(pid uint32) (stat, error) { return readStat(t.file(pid, "stat")) }

// readStat reads the stat of a process or of one of its threads.
func readStat(file string) (stat, error) {
	var buf [fileSize]byte
	data, err := readFile(file, buf[:0])
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
func (t procTree) cgroupOf(pid uint32, before stat) (stat, unique.Handle[cgroup], error) {
	if before.kernel {
		return before, unique.Make(cgroup{host: true}), nil
	}
	for range 2 {
		c, cgroupErr := t.cgroup(pid)
		after, err := t.stat(pid)
		if err != nil {
			return before, unique.Make(cgroup{}), err
		}
		if after.start == before.start {
			if after.exiting && c.host { // cgroup v1 shows an exiting thread in the root
				c = t.cgroupOfThreads(pid)
			}
			return after, unique.Make(c), cgroupErr
		}
		before = after
	}
	return before, unique.Make(cgroup{}), errGone
}

// maxThreads is how many threads of a process are read to find one that still runs.
const maxThreads = 32

// cgroupOfThreads reads the cgroup of a process whose main thread has exited from a
// thread that still runs. It is zero if there is none among the first threads.
func (t procTree) cgroupOfThreads(pid uint32) cgroup {
	tasks, err := os.Open(t.file(pid, "task"))
	if err != nil {
		return cgroup{}
	}
	defer tasks.Close()
	tids, _ := tasks.Readdirnames(maxThreads)
	for _, tid := range tids {
		st, err := readStat(filepath.Join(tasks.Name(), tid, "stat"))
		if err != nil || st.exiting {
			continue
		}
		if c, err := readCgroup(filepath.Join(tasks.Name(), tid, "cgroup")); err == nil {
			return c
		}
	}
	return cgroup{}
}

// cgroup reads /proc/<pid>/cgroup. A process without that file is an error, not
// gone: only its stat tells.
func (t procTree) cgroup(pid uint32) (cgroup, error) { return readCgroup(t.file(pid, "cgroup")) }

// readCgroup reads the cgroup of a process or of one of its threads.
func readCgroup(file string) (cgroup, error) {
	data, err := readText(file)
	if err != nil {
		return cgroup{}, err
	}
	c, err := parseCgroup(data)
	if err != nil {
		return cgroup{}, fmt.Errorf("read %s: %w", file, err)
	}
	return c, nil
}

// readText returns the content of a file.
func readText(file string) (string, error) {
	var buf [fileSize]byte
	data, err := readFile(file, buf[:0])
	return string(data), err
}

func (t procTree) file(pid uint32, name string) string {
	return filepath.Join(t.root, strconv.FormatUint(uint64(pid), 10), name)
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
// errGone.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
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
		return stat{}, fmt.Errorf("no process name in %.200q", string(data))
	}
	var field [23][]byte // by number; 3 is the first behind the name
	rest := bytes.TrimSpace(data[end+1:])
	for i := 3; i < len(field); i++ {
		field[i], rest, _ = bytes.Cut(bytes.TrimLeft(rest, " "), []byte(" "))
	}
	if len(field[22]) == 0 {
		return stat{}, fmt.Errorf("too short: %.200q", string(data))
	}
	flags, err := strconv.ParseUint(string(field[9]), 10, 64)
	if err != nil {
		return stat{}, fmt.Errorf("flags: %w", err)
	}
	start, err := strconv.ParseUint(string(field[22]), 10, 64)
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
