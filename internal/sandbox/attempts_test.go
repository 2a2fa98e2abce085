package sandbox_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// attempts lists operations that are tried with and without the sandbox. Without it all succeed.
var attempts = []struct {
	name string
	do   func(w *world) error
	// fails is the error code in the sandbox if the kernel's Landlock ABI is at least abi.
	fails string
	abi   int
}{
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
	{"gain privileges by a program", func(*world) error { return mayGainPrivileges() }, "EPERM", 1},

	{"signal a process", func(*world) error { return unix.Kill(os.Getppid(), 0) }, "EPERM", 6},
	{"signal itself", func(*world) error { return unix.Kill(os.Getpid(), 0) }, "", 0},
	// The same rule protects a process's environment, but root with CAP_PERFMON can read that.
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

// readOf reads a /proc file of the parent process.
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

// controlDevice sends an ioctl to a device that does not support it. ENOTTY shows that the ioctl
// reached the device.
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

// mayGainPrivileges returns EPERM if no thread of the program may gain privileges by
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
