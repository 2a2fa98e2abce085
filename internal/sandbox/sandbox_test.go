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
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gpuledger/gpuledger/internal/sandbox"
)

// TestMain runs the tests. If the environment contains a world, it runs the program under test instead.
func TestMain(m *testing.M) {
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

const worldVariable = "GPULEDGER_TEST_WORLD"

// restarts is an environment variable that is set in a program after a restart.
const restarts = "GPULEDGER_TEST_RESTARTED"

// world describes the environment of the program under test. The test is its parent process, listens on the ports and
// sockets, and owns the files.
type world struct {
	// If Sandboxed is set, the program enters the sandbox. If Stacked is also set, it enters nested sandboxes until the
	// kernel returns an error.
	Sandboxed, Stacked bool
	Filtered           bool   // install the system call filters
	Restarted          bool   // restart in the sandbox
	State              string // the program's state folder
	Files              string // a folder with the test's files
	Port               uint16 // a TCP port that a rule allows
	OtherPort          uint16
	Socket             string // the path of a socket
	Abstract           string // the name of an abstract socket, which has no path
}

type result struct {
	ABI   int
	Error string
	// Attempts and Calls contain the error code of each attempt and of each system call. The code is empty after
	// success.
	Attempts, Calls map[string]string
	DeathSignal     int32
	Command         string
	Restarted       bool
}

// deathSignal is read during the initialisation of the package, which runs on the main thread.
var deathSignal = func() (signal int32) {
	_ = unix.Prctl(unix.PR_GET_PDEATHSIG, uintptr(unsafe.Pointer(&signal)), 0, 0, 0)
	return signal
}()

// explore enters the sandbox, if the world requires it, and makes every attempt.
func (w *world) explore() result {
	r := result{Attempts: make(map[string]string), Calls: make(map[string]string)}
	for again := w.Sandboxed; again; again = w.Stacked && r.Error == "" {
		var err error
		if r.ABI, err = sandbox.Enter(sandbox.Rules{State: w.State, Devices: "/dev", Ports: []uint16{w.Port}}); err != nil {
			r.Error = err.Error()
		}
	}
	if w.Filtered && r.Error == "" {
		if err := errors.Join(sandbox.Filter(sandbox.FilterRules{Execute: r.ABI > 0}), sandbox.FilterListening()); err != nil {
			r.Error = err.Error()
		}
	}
	if w.Restarted && os.Getenv(restarts) == "" && r.Error == "" {
		r.Error = sandbox.Restart(restarts + "=1").Error()
	}
	for _, a := range attempts {
		r.Attempts[a.name] = code(a.do(w))
	}
	for _, c := range calls {
		r.Calls[c.name] = code(c.do())
	}
	r.DeathSignal, r.Command, r.Restarted = deathSignal, command(), os.Getenv(restarts) != ""
	return r
}

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

func newWorld(t *testing.T) world {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandbox") // not t.TempDir, because it may be in /dev, where the sandbox allows writing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	w := world{State: dir + "/state", Files: dir + "/files", Socket: dir + "/socket", Abstract: "@" + dir}
	if err := os.Mkdir(w.Files, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"written", "truncated", "removed", "renamed", "linked"} {
		if err := os.WriteFile(filepath.Join(w.Files, name), []byte("theirs"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(w.Files+"/program", []byte("no program"), 0o700); err != nil {
		t.Fatal(err)
	}
	for network, addresses := range map[string][]string{"unix": {w.Socket, w.Abstract}, "tcp": {"127.0.0.1:0", "127.0.0.1:0"}} {
		for _, address := range addresses {
			l, err := net.Listen(network, address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			if a, ok := l.Addr().(*net.TCPAddr); ok {
				w.Port, w.OtherPort = uint16(a.Port), w.Port
			}
		}
	}
	return w
}

// explore runs the program under test in the world and returns its output.
func explore(t *testing.T, w world) result {
	t.Helper()
	text, err := json.Marshal(w)
	if err != nil {
		t.Fatal(err)
	}
	// The kernel sends the parent-death signal when the thread that started the program ends. So this thread must not
	// end early.
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

func needLandlock(t *testing.T) {
	t.Helper()
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	if errno != 0 {
		t.Skipf("this kernel has no Landlock: %v", errno)
	}
	t.Logf("Landlock ABI %d", abi)
}

// TestEnter checks that the sandbox allows only the operations that the exporter needs. The process and its name must
// not change. Outside the sandbox, all operations must succeed.
func TestEnter(t *testing.T) {
	for _, tt := range []world{
		{},
		{Filtered: true},
		{Sandboxed: true},
		{Sandboxed: true, Filtered: true},
		{Sandboxed: true, Restarted: true},
		{Sandboxed: true, Filtered: true, Restarted: true},
	} {
		t.Run(fmt.Sprintf("sandboxed=%v filtered=%v restarted=%v", tt.Sandboxed, tt.Filtered, tt.Restarted), func(t *testing.T) {
			w := newWorld(t)
			w.Filtered, w.Restarted = tt.Filtered, tt.Restarted
			if w.Sandboxed = tt.Sandboxed; w.Sandboxed {
				needLandlock(t)
			} else if err := os.Mkdir(w.State, 0o700); err != nil { // without a sandbox, Enter does not create the folder
				t.Fatal(err)
			}
			got := explore(t, w)
			if w.Sandboxed != (got.ABI > 0) || got.Error != "" {
				t.Fatalf("Landlock ABI %d, error %q", got.ABI, got.Error)
			}
			want := result{ABI: got.ABI, Attempts: make(map[string]string), Calls: got.Calls, DeathSignal: int32(unix.SIGTERM), Command: command(), Restarted: w.Restarted}
			for _, a := range attempts {
				want.Attempts[a.name] = expected(a, w, got.ABI)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("result (-want +got):\n%s", diff)
			}
			if !w.Sandboxed {
				checkCalls(t, w.Filtered, got.Calls)
			}
		})
	}
}

// TestRestartDenied checks that the filters deny a restart without Landlock.
func TestRestartDenied(t *testing.T) {
	w := newWorld(t)
	w.Filtered, w.Restarted = true, true
	if got := explore(t, w); got.Restarted || !strings.HasSuffix(got.Error, "operation not permitted") {
		t.Errorf("restarted: %v, error %q", got.Restarted, got.Error)
	}
}

func expected(a attempt, w world, abi int) string {
	switch {
	case w.Filtered && slices.Contains(filtered, a.name):
		return "EPERM"
	case w.Filtered && a.name == "gain privileges by a program": // installing a filter requires no_new_privs
		return "EPERM"
	case w.Filtered && !w.Sandboxed && a.name == "replace itself by a program":
		return "EPERM"
	case w.Sandboxed && abi >= a.abi:
		return a.fails
	}
	return ""
}

func checkCalls(t *testing.T, isFiltered bool, got map[string]string) {
	t.Helper()
	want := make(map[string]string)
	for _, c := range calls {
		want[c.name] = c.plain
		switch code := got[c.name]; {
		case !isFiltered && code != c.plain && (code == "EPERM" || code == "ENOSYS"):
			t.Logf("%s returns %s even without the filter, so this test cannot show the filter's effect", c.name, code)
			want[c.name] = code
		case isFiltered:
			want[c.name] = "EPERM"
			if code, ok := allowedCalls[c.name]; ok {
				want[c.name] = code
			}
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("system calls (-want +got):\n%s", diff)
	}
}

// TestNoStateFolder checks that the program runs in the sandbox if the state folder cannot be created. The program must
// not be able to write files.
func TestNoStateFolder(t *testing.T) {
	needLandlock(t)
	w := newWorld(t)
	w.Sandboxed, w.State = true, w.Files+"/written"
	got := explore(t, w)
	if got.ABI == 0 || got.Error != "" || got.Attempts["write a file"] != "EACCES" || got.Attempts["replace the state"] != "ENOTDIR" {
		t.Errorf("%+v", got)
	}
}

// TestRefused checks that the program continues if the kernel refuses to restrict it. The kernel refuses the
// seventeenth nested sandbox.
func TestRefused(t *testing.T) {
	needLandlock(t)
	w := newWorld(t)
	w.Sandboxed, w.Stacked = true, true
	got := explore(t, w)
	if !strings.HasSuffix(got.Error, "argument list too long") || got.Attempts["replace the state"] != "" {
		t.Errorf("%+v", got)
	}
}
