// Package proc reads processes from the proc file system. It does not find owners, such as pods.
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

// ErrGone is in the error chain if a process has ended or never existed.
var ErrGone = errors.New("no such process")

// UserHZ is the number of ticks per second in /proc/<pid>/stat. It is 100 on each architecture
// with GPUs.
const UserHZ = 100

// Process flags from include/linux/sched.h.
const (
	// exiting is PF_EXITING. The driver may still list an exiting process while it frees the process's GPU memory.
	exiting = 0x4
	// kernelThread is PF_KTHREAD.
	kernelThread = 0x200000
)

// maxPIDs is the kernel's PID_MAX_LIMIT.
const maxPIDs = 4 << 20

// Tree reads processes from a proc file system mounted at Root.
type Tree struct{ Root string }

// Stat contains some fields of /proc/<pid>/stat.
type Stat struct {
	Name    string // field 2; the same bytes as in /proc/<pid>/comm
	Exiting bool   // part of field 9
	Kernel  bool   // part of field 9; set for a kernel thread
	Start   uint64 // field 22, in ticks since boot
}

// PIDs lists the processes in ascending order.
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

// BootTime returns the machine's boot time in whole seconds (/proc/stat, btime).
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

// Stat reads the name and the start time of a process. It reads only once, so that both values belong to one process.
func (t Tree) Stat(pid uint32) (Stat, error) { return readStat(t.File(pid, "stat")) }

// The file may belong to a process or to one of its threads.
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

// Cgroup returns the content of /proc/<pid>/cgroup, and the stat of the process to which this content belongs. The
// argument before is an earlier result of Stat. If the PID was reused since then, the result belongs to the new
// process. The stat is valid unless the error is ErrGone.
//
// The content is empty for a kernel thread, because the root cgroup has no name in a private cgroup namespace.
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
			if after.Exiting && inRoot(text) { // cgroup v1 shows an exiting thread in the root cgroup
				text = t.cgroupOfThreads(pid)
			}
			return after, text, cgroupErr
		}
		before = after
	}
	return before, "", ErrGone
}

// inRoot reports whether every path in a cgroup file is a root cgroup, and at least one line belongs to cgroup v1.
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

// maxThreads is the maximum number of threads that are read to find a running thread.
const maxThreads = 32

// cgroupOfThreads returns the cgroup of another thread if the main thread of a process has exited. It returns an empty
// text if no such thread still runs.
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

func readText(file string) (string, error) {
	var buf [fileSize]byte
	data, err := readFile(file, buf[:0])
	return string(data), err
}

// File returns the path of a file of a process.
func (t Tree) File(pid uint32, name string) string {
	return filepath.Join(t.Root, strconv.FormatUint(uint64(pid), 10), name)
}

// fileSize is in bytes. It is enough for the files of most processes.
const fileSize = 2048

// readFile appends the content of a file to buf, which may be on the stack. os.ReadFile would allocate a kilobyte for
// each file, and a poll reads thousands of files.
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

func uninterrupted(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// goneOr returns ErrGone if the process ended before or during the read.
func goneOr(err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return ErrGone
	}
	return err
}

// parseStat parses /proc/<pid>/stat. The name is in parentheses and may contain any bytes, including parentheses and
// newlines. The parser of procfs is not used, because it panics if a line ends within the name.
func parseStat(data []byte) (Stat, error) {
	open, end := bytes.IndexByte(data, '('), bytes.LastIndexByte(data, ')')
	if open < 0 || end < open {
		return Stat{}, fmt.Errorf("no process name in %.200q", string(data))
	}
	var field [23][]byte // fields by number; field 3 is the first field after the name
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

// maxTitle is the maximum number of bytes that are read from a process's command line.
const maxTitle = 256

// Cmdline returns the beginning of a process's command line, with NUL bytes between arguments. If the process has set a
// title, Cmdline returns the title.
func (t Tree) Cmdline(pid uint32) (string, error) {
	f, err := os.Open(t.File(pid, "cmdline"))
	if err != nil {
		return "", goneOr(err)
	}
	defer f.Close()
	var buf [maxTitle]byte
	n, err := io.ReadFull(f, buf[:])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", goneOr(err)
	}
	return string(buf[:n]), nil
}

// UID returns the real user id of a process, in decimal.
func (t Tree) UID(pid uint32) (string, error) {
	text, err := readText(t.File(pid, "status"))
	if err != nil {
		return "", goneOr(err)
	}
	for line := range strings.Lines(text) {
		if ids, ok := strings.CutPrefix(line, "Uid:"); ok {
			if fields := strings.Fields(ids); len(fields) > 0 {
				return fields[0], nil
			}
		}
	}
	return "", fmt.Errorf("read %s: no line Uid", t.File(pid, "status"))
}
