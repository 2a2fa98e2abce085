package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// attempt is an operation that must succeed outside the sandbox.
type attempt struct {
	name string
	do   func(w *world) error
	// fails is the expected error code in the sandbox if the kernel's Landlock ABI is at least abi.
	fails string
	abi   int
}

// filtered lists the attempts for which the system call filter returns EPERM. The kernel applies the filter before
// Landlock.
var filtered = []string{"execute a program", "signal a process", "listen on a port"}

var attempts = []attempt{
	{"create a file", func(w *world) error { return os.WriteFile(w.Files+"/new", nil, 0o600) }, "EACCES", 1},
	{"write a file", func(w *world) error { return openFor(w.Files+"/written", os.O_WRONLY) }, "EACCES", 1},
	{"truncate a file", func(w *world) error { return os.Truncate(w.Files+"/truncated", 0) }, "EACCES", 3},
	{"remove a file", func(w *world) error { return os.Remove(w.Files + "/removed") }, "EACCES", 1},
	{"rename a file", func(w *world) error { return os.Rename(w.Files+"/renamed", w.Files+"/renamed.new") }, "EACCES", 1},
	{"make a folder", func(w *world) error { return os.Mkdir(w.Files+"/folder", 0o700) }, "EACCES", 1},
	{"make a link", func(w *world) error { return os.Symlink("nowhere", w.Files+"/symlink") }, "EACCES", 1},
	{"link a file into the state folder", func(w *world) error { return os.Link(w.Files+"/linked", w.State+"/linked") }, "EXDEV", 1},
	{"make a link in the state folder", func(w *world) error { return os.Symlink(w.Files, w.State+"/symlink") }, "EACCES", 1},
	{"read a file", func(w *world) error { return openFor(w.Files+"/written", os.O_RDONLY) }, "", 0},
	{"list a folder", func(w *world) error { _, err := os.ReadDir(w.Files); return err }, "", 0},

	{"replace the state", func(w *world) error {
		return errors.Join(os.WriteFile(w.State+"/new", []byte("state"), 0o600), os.Rename(w.State+"/new", w.State+"/state"),
			os.WriteFile(w.State+"/state", nil, 0o600))
	}, "", 0},
	{"remove the state", func(w *world) error { return os.Remove(w.State + "/state") }, "", 0},
	{"write to a device", func(*world) error { return os.WriteFile("/dev/null", []byte("any"), 0o600) }, "", 0},
	{"control a device", controlDevice, "", 0},

	{"execute a program", func(*world) error { return exec.Command("/bin/true").Run() }, "EACCES", 1},
	{"replace itself by a program", func(w *world) error {
		if err := unix.Exec(w.Files+"/program", nil, nil); !errors.Is(err, unix.ENOEXEC) {
			return err
		}
		return nil
	}, "EACCES", 1},
	{"gain privileges by a program", func(*world) error { return mayGainPrivileges() }, "EPERM", 1},

	{"signal a process", func(*world) error { return unix.Kill(os.Getppid(), 0) }, "EPERM", 6},
	{"signal itself", func(*world) error { return unix.Kill(os.Getpid(), 0) }, "", 0},
	// This kernel rule also protects the environment of a process. The test does not read the environment, because root
	// with CAP_PERFMON may read it.
	{"see the root of a process", func(*world) error { _, err := os.ReadDir(fmt.Sprintf("/proc/%d/root", os.Getppid())); return err }, "EACCES", 1},
	{"read the cgroup of a process", func(*world) error { return readOf("cgroup") }, "", 0},
	{"read the state of a process", func(*world) error { return readOf("stat") }, "", 0},
	{"read the command line of a process", func(*world) error { return readOf("cmdline") }, "", 0},

	{"connect to another port", func(w *world) error { return dial("tcp", fmt.Sprint("127.0.0.1:", w.OtherPort)) }, "EACCES", 4},
	{"connect to its port", func(w *world) error { return dial("tcp", fmt.Sprint("127.0.0.1:", w.Port)) }, "", 0},
	{"connect to a socket", func(w *world) error { return dial("unix", w.Socket) }, "", 0},
	{"connect to an abstract socket", func(w *world) error { return dial("unix", w.Abstract) }, "EPERM", 6},
	{"listen on a port", func(*world) error {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err == nil {
			err = l.Close()
		}
		return err
	}, "", 0},
}

func openFor(path string, flag int) error {
	file, err := os.OpenFile(path, flag, 0)
	if err == nil {
		err = file.Close()
	}
	return err
}

func readOf(name string) error {
	_, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", os.Getppid(), name))
	return err
}

func dial(network, address string) error {
	c, err := net.Dial(network, address)
	if err == nil {
		err = c.Close()
	}
	return err
}

// controlDevice sends an ioctl that the device does not support. The error ENOTTY shows that the ioctl has reached the
// device.
func controlDevice(*world) error {
	device, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	defer device.Close()
	if _, err = unix.IoctlGetTermios(int(device.Fd()), unix.TCGETS); errors.Is(err, unix.ENOTTY) {
		return nil
	}
	return err
}

// mayGainPrivileges returns EPERM if no_new_privs is set, because the test program then cannot gain privileges by
// executing a setuid program.
func mayGainPrivileges() error {
	threads, err := filepath.Glob("/proc/self/task/*/status")
	if err != nil || len(threads) < 2 {
		return fmt.Errorf("%d threads: %w", len(threads), err)
	}
	for _, thread := range threads {
		status, err := os.ReadFile(thread)
		if err != nil {
			return err
		}
		if !strings.Contains(string(status), "\nNoNewPrivs:\t1\n") {
			return nil
		}
	}
	return unix.EPERM
}

// calls lists system calls that return EPERM with the filter. Most calls have invalid arguments. Without the filter,
// they have no effect and return another error code.
var calls = []struct {
	name  string
	do    func() error
	plain string
}{
	{"set the priority of a process", func() error {
		raw, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getppid())
		return errors.Join(err, unix.Setpriority(unix.PRIO_PROCESS, os.Getppid(), 20-raw)) // the system call returns 20 minus the priority
	}, ""},
	{"set the I/O priority of a process", func() error { return call(unix.SYS_IOPRIO_SET, 1, parent(), 2<<13|4) }, ""},
	{"set the processors of a process", func() error {
		var set unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(os.Getppid(), &set), unix.SchedSetaffinity(os.Getppid(), &set))
	}, ""},
	{"set the scheduler of a process", func() error {
		var none int32
		return call(unix.SYS_SCHED_SETSCHEDULER, parent(), unix.SCHED_NORMAL, address(&none))
	}, ""},
	{"set a limit of a process", func() error {
		var l unix.Rlimit
		return errors.Join(unix.Prlimit(os.Getpid(), unix.RLIMIT_CORE, nil, &l), call(unix.SYS_PRLIMIT64, parent(), unix.RLIMIT_CORE, 0))
	}, ""},
	{"open a process", func() error { fd, err := unix.PidfdOpen(os.Getppid(), 0); return closed(fd, err) }, ""},
	{"own the signals of a file", func() error {
		return ofSocket(func(fd int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, os.Getppid()); return err })
	}, ""},
	{"own the signals of a socket", func() error {
		return ofSocket(func(fd int) error { return unix.IoctlSetPointerInt(fd, unix.SIOCSPGRP, os.Getppid()) })
	}, ""},
	{"signal a thread of a process", func() error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) }, ""},
	{"signal a group", func() error { return unix.Kill(0, 0) }, ""},
	{"leave a namespace", func() error { return unix.Unshare(0) }, ""},
	{"open a netlink socket", func() error { return opened(unix.AF_NETLINK, unix.SOCK_RAW) }, ""},
	{"open a packet socket", func() error { return opened(unix.AF_PACKET, unix.SOCK_DGRAM) }, ""},
	{"bind a UDP port", func() error {
		c, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err == nil {
			err = c.Close()
		}
		return err
	}, ""},
	{"listen on an abstract socket", func() error {
		l, err := net.Listen("unix", fmt.Sprintf("@gpuledger-test-%d", os.Getpid()))
		if err == nil {
			err = l.Close()
		}
		return err
	}, ""},

	{"trace a process", func() error { return call(unix.SYS_PTRACE, unix.PTRACE_ATTACH, noProcess, 0) }, "ESRCH"},
	{"read the memory of a process", func() error {
		var iov unix.Iovec
		iov.SetLen(1)
		return call(unix.SYS_PROCESS_VM_READV, noProcess, address(&iov), 1, address(&iov), 1, 0)
	}, "ESRCH"},
	{"execute a missing program", func() error { return unix.Exec("/nonexistent", nil, nil) }, "ENOENT"},
	{"join a namespace", func() error { return unix.Setns(-1, 0) }, "EBADF"},
	{"mount", func() error { return unix.Mount("x", "/nonexistent", "tmpfs", 0, "") }, "ENOENT"},
	{"open a mount", func() error { return call(unix.SYS_OPEN_TREE, 0, 0, ^uintptr(0)) }, "EINVAL"},
	{"restart the node, without the magic numbers", func() error { return call(unix.SYS_REBOOT, 0, 0, 0) }, "EINVAL"},
	{"load a program into the kernel", func() error { return call(unix.SYS_BPF, ^uintptr(0), 0, 0) }, "EINVAL"},
	{"count events of a process", func() error {
		return call(unix.SYS_PERF_EVENT_OPEN, 0, parent(), ^uintptr(0), ^uintptr(0), ^uintptr(0))
	}, "EINVAL"},
	{"make a ring of requests", func() error { return call(unix.SYS_IO_URING_ENTER, ^uintptr(0), 0, 0, ^uintptr(0)) }, "EINVAL"},
	{"make a call of the x32 ABI", func() error { return call(1<<30 | unix.SYS_GETPID) }, "ENOSYS"},
	{"make a child by clone3", func() error { return call(unix.SYS_CLONE3, 0, 0) }, "EINVAL"},
	{"make a namespace by clone", func() error { return call(unix.SYS_CLONE, unix.CLONE_THREAD|unix.CLONE_NEWUSER) }, "EINVAL"},

	{"read a limit of its own", func() error { var l unix.Rlimit; return unix.Prlimit(0, unix.RLIMIT_NOFILE, nil, &l) }, ""},
	{"set its own processors", func() error {
		var set unix.CPUSet
		return errors.Join(unix.SchedGetaffinity(0, &set), unix.SchedSetaffinity(0, &set))
	}, ""},
	{"signal its own thread", func() error { return unix.Tgkill(os.Getpid(), unix.Gettid(), 0) }, ""},
	{"start a thread", startThread, ""},
	{"open a socket", func() error { return opened(unix.AF_INET6, unix.SOCK_STREAM) }, ""},
	{"set flags of a file", func() error { return ofSocket(func(fd int) error { return unix.SetNonblock(fd, true) }) }, ""},
}

// allowedCalls lists calls that the filter does not deny, with the expected error codes. The filter makes clone3 fail
// with ENOSYS, so that the C library uses clone instead.
var allowedCalls = map[string]string{
	"read a limit of its own": "", "set its own processors": "", "signal its own thread": "", "start a thread": "", "open a socket": "",
	"set flags of a file": "", "make a child by clone3": "ENOSYS",
}

// noProcess exceeds the kernel's limit for process ids (PID_MAX_LIMIT).
const noProcess = 1 << 23

func parent() uintptr { return uintptr(os.Getppid()) }

func address[T any](v *T) uintptr { return uintptr(unsafe.Pointer(v)) }

func call(number uintptr, arguments ...uintptr) error {
	var a [6]uintptr
	copy(a[:], arguments)
	if _, _, errno := unix.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5]); errno != 0 {
		return errno
	}
	return nil
}

func closed(fd int, err error) error {
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func opened(family, kind int) error {
	fd, err := unix.Socket(family, kind, 0)
	return closed(fd, err)
}

func ofSocket(do func(fd int) error) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	return errors.Join(do(fd), unix.Close(fd))
}

// startThread starts goroutines that each occupy a thread, so that Go must create a new thread.
func startThread() error {
	var threads sync.WaitGroup
	stop := make(chan struct{})
	for range 20 {
		threads.Add(1)
		go func() {
			runtime.LockOSThread()
			threads.Done()
			<-stop
		}()
	}
	threads.Wait()
	close(stop)
	return nil
}
