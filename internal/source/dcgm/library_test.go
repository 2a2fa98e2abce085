package dcgm_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/source/dcgm"
)

// otherLibrary is an environment variable with the library for a child process of this test binary. A process can load
// only one library.
const otherLibrary = "GPULEDGER_TEST_LIBRARY"

func printError(path string) {
	address, _ := dcgm.ParseAddress("localhost:5555")
	s := dcgm.New(dcgm.Config{
		Address: address, LibraryPath: path, CallTimeout: gputest.HangTimeout, Tick: time.Second,
		Now: gputest.NewClock().Now, Log: slog.New(slog.DiscardHandler),
	})
	for range 2 {
		fmt.Println(s.Enrich(context.Background(), new(gpu.Report)))
	}
	fmt.Println(s.Close(time.Second))
}

// An invalid library must not end the process, and the error must describe the problem.
func TestLibrary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libdcgm.so.4")
	if err := os.WriteFile(text, []byte("no library"), 0o600); err != nil {
		t.Fatal(err)
	}
	lacking, err := fakes.Without(library(), t.TempDir(), "dcgmEntitiesGetLatestValues")
	if err != nil {
		t.Fatal(err)
	}
	nvml, err := fakes.Compile(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct{ path, want string }{
		"there is none":      {"/nonexistent/libdcgm.so.4", "cannot open shared object file"},
		"no library":         {text, "file too short"},
		"another library":    {nvml, "symbol errorString is missing, so this is not a DCGM 4 library"},
		"an older or newer":  {lacking, "symbol dcgmEntitiesGetLatestValues is missing"},
		"nothing to connect": {library(), "connect to localhost:5555"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), otherLibrary+"="+tt.path)
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("the process ended: %v\n%s", err, out)
			}
			lines := strings.Split(strings.TrimSpace(string(out)), "\n")
			if len(lines) != 3 || !strings.Contains(lines[0], tt.want) || lines[0] != lines[1] || lines[2] != "<nil>" {
				t.Errorf("want %q twice:\n%s", tt.want, out)
			}
		})
	}
}

func TestParseAddress(t *testing.T) {
	for _, good := range []string{
		"/run/nvidia/dcgm.sock", "unix:///run/nvidia/dcgm.sock", "localhost", "localhost:5555", "10.0.0.1", "[::1]:5555",
		"tcp://dcgm.svc:5555", "TCP://localhost:1", "vsock://2:5555", "embedded",
	} {
		if a, err := dcgm.ParseAddress(good); err != nil || a.String() != good {
			t.Errorf("%s: %v, %v", good, a, err)
		}
	}
	for _, bad := range []string{"", "http://localhost:5555", "unix://dcgm.sock", "run/dcgm.sock", "localhost:", ":5555", "tcp:///run/dcgm.sock"} {
		if a, err := dcgm.ParseAddress(bad); err == nil {
			t.Errorf("%q is parsed as %v", bad, a)
		}
	}
}

func TestPort(t *testing.T) {
	for text, want := range map[string]uint16{
		"localhost": 5555, "tcp://[::1]:1": 1, "host:dcgm": 0, "/run/nvidia/dcgm.sock": 0, "vsock://2:5555": 0, "embedded": 0,
	} {
		a, err := dcgm.ParseAddress(text)
		if err != nil || a.Port() != want {
			t.Errorf("%s: port %d, want %d; %v", text, a.Port(), want, err)
		}
	}
}

// TestAddresses checks which string the library gets for each form of an address.
func TestAddresses(t *testing.T) {
	dir, err := os.MkdirTemp("", "d") // a short path, because it contains a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	socket := filepath.Join(dir, "dcgm.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	tests := map[string]string{
		socket:             "dcgmConnectSocket\t-\t0\t" + socket,
		"unix://" + socket: "dcgmConnectSocket\t-\t0\t" + socket,
		"localhost":        "dcgmConnectTCP\t-\t0\tlocalhost:5555",
		"tcp://[::1]:1":    "dcgmConnectTCP\t-\t0\t[::1]:1",
		"vsock://2:5555":   "dcgmConnectURI\t-\t0\tvsock://2:5555",
		"embedded":         "dcgmStartEmbedded\t-\t0\t-",
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			e := newEngine(t, pair()...)
			if e.cfg.Address, err = dcgm.ParseAddress(text); err != nil {
				t.Fatal(err)
			}
			e.readAll(e.open())
			if log, _ := os.ReadFile(filepath.Join(e.dir, "log")); !strings.Contains(string(log), "\t"+want+"\n") {
				t.Errorf("want the call %q:\n%.2000s", want, log)
			}
		})
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "none.sock"): "is nv-hostengine running with --domain-socket",
		os.Args[0]:                      "is not a socket",
	} {
		e := newEngine(t, pair()...)
		if e.cfg.Address, err = dcgm.ParseAddress(path); err != nil {
			t.Fatal(err)
		}
		if _, err := e.open().Read(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error is %v, want %q", path, err, want)
		}
	}
}
