package sandbox_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/sandbox"
)

// TestMain is also the program under test: this binary, executed again with a world.
func TestMain(m *testing.M) {
	runtime.LockOSThread() // Enter is called on the main thread
	text, tested := os.LookupEnv(worldVariable)
	if !tested {
		os.Exit(m.Run())
	}
	var w world
	err := json.Unmarshal([]byte(text), &w)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(w.explore())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// worldVariable is the environment variable with the world of the program under test.
const worldVariable = "GPULEDGER_TEST_WORLD"

// world is where the program under test runs. The test is its parent process, listens on
// the ports and sockets, and owns the files.
type world struct {
	// Sandboxed programs enter the sandbox, Stacked ones until the kernel refuses.
	Sandboxed, Stacked bool
	State             string // its state folder
	Files             string // a folder with files of others
	Port              uint16 // a TCP port that a rule allows
	OtherPort         uint16
	Socket            string // the path of a socket
	Abstract          string // the name of a socket without a path
}

// result is what the program under test found.
type result struct {
	ABI   int
	Error string
	// Attempts are the error codes of the attempts by name, empty for success.
	Attempts map[string]string
	// DeathSignal is the signal that the program gets when its parent ends.
	DeathSignal int32
	// Command is the name of the process.
	Command string
}

// explore enters the sandbox and makes every attempt.
func (w *world) explore() result {
	r := result{Attempts: make(map[string]string)}
	for again := w.Sandboxed; again; again = w.Stacked && r.Error == "" {
		var err error
		if r.ABI, err = sandbox.Enter(sandbox.Rules{State: w.State, Devices: "/dev", Ports: []uint16{w.Port}}); err != nil {
			r.Error = err.Error()
		}
	}
	for _, a := range attempts {
		r.Attempts[a.name] = code(a.do(w))
	}
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&r.DeathSignal)), 0, 0, 0) //nolint:gosec // the kernel's interface
	r.Command = command()
	return r
}

// command returns the name of this process.
func command() string {
	name, _ := os.ReadFile("/proc/self/comm")
	return strings.TrimSpace(string(name))
}

func code(err error) string {
	var errno syscall.Errno
	switch {
	case err == nil:
		return ""
	case errors.As(err, &errno):
		return unix.ErrnoName(errno)
	}
	return err.Error()
}

// attempts are made with and without the sandbox: without it, each succeeds.
var attempts = []struct {
	name string
	do   func(w *world) error
	// fails is the error code in the sandbox, from the Landlock ABI on that restricts it.
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
	// As its environment, which root with CAP_PERFMON reads all the same.
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

// readOf reads a file about the parent process.
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

// controlDevice makes an ioctl that reaches the device, which does not have it.
func controlDevice(*world) error {
	device, err := os.Open("/dev/null")
	if err != nil {
		return err
	}
	defer device.Close()
	if _, err = unix.IoctlGetTermios(int(device.Fd()), unix.TCGETS); errors.Is(err, unix.ENOTTY) { //nolint:gosec // a file descriptor
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

// newWorld makes a world for one program.
func newWorld(t *testing.T) world {
	t.Helper()
	dir := t.TempDir()
	w := world{State: dir + "/state", Files: dir + "/files", Socket: dir + "/socket", Abstract: "@" + dir}
	if err := os.Mkdir(w.Files, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"written", "truncated", "removed", "renamed", "linked"} {
		if err := os.WriteFile(filepath.Join(w.Files, name), []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for network, addresses := range map[string][]string{"unix": {w.Socket, w.Abstract}, "tcp": {"127.0.0.1:0", "127.0.0.1:0"}} {
		for _, address := range addresses {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				w.Port, w.OtherPort = uint16(a.Port), w.Port //nolint:gosec // a port
			}
		}
	}
	return w
}

// explore runs the program under test in the world.
func explore(t *testing.T, w world) result {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	// The program gets its signal when the thread ends that started it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), worldVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var r result
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return r
}

// needLandlock skips a test where the kernel has none.
func needLandlock(t *testing.T) {
	t.Helper()
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		t.Skipf("this kernel has no Landlock: %v", errno)
	}
	t.Logf("Landlock ABI %d", abi)
}

// TestEnter: in the sandbox, what the exporter does not need fails, what it needs works,
// and it is the same process under the same name. Outside, everything works.
func TestEnter(t *testing.T) {
	for _, sandboxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("sandboxed=%v", sandboxed), func(t *testing.T) {
			w := newWorld(t)
			if w.Sandboxed = sandboxed; sandboxed {
				needLandlock(t)
			} else if err := os.Mkdir(w.State, 0o700); err != nil { // which the sandbox makes
				t.Fatal(err)
			}
			got := explore(t, w)
			if sandboxed != (got.ABI > 0) || got.Error != "" {
				t.Fatalf("ABI %d, error %q", got.ABI, got.Error)
			}
			want := result{ABI: got.ABI, Attempts: make(map[string]string), DeathSignal: int32(unix.SIGTERM), Command: command()}
			for _, a := range attempts {
				want.Attempts[a.name] = ""
				if sandboxed && got.ABI >= a.abi {
					want.Attempts[a.name] = a.fails
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestNoStateFolder: where there can be no state folder, the program runs in the sandbox
// and nothing is written.
func TestNoStateFolder(t *testing.T) {
	needLandlock(t)
	w := newWorld(t)
	w.Sandboxed, w.State = true, w.Files+"/written"
	got := explore(t, w)
	if got.ABI == 0 || got.Error != "" || got.Attempts["write a file"] != "EACCES" || got.Attempts["replace the state"] != "ENOTDIR" {
		t.Errorf("%+v", got)
	}
}

// TestRefused: where the kernel refuses to restrict the program, as it does with the
// seventeenth sandbox in another, the program goes on.
func TestRefused(t *testing.T) {
	needLandlock(t)
	w := newWorld(t)
	w.Sandboxed, w.Stacked = true, true
	got := explore(t, w)
	if !strings.HasSuffix(got.Error, "argument list too long") || got.Attempts["replace the state"] != "" {
		t.Errorf("%+v", got)
	}
}
