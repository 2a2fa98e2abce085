package dcgm_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
	"github.com/gpuledger/gpuledger/internal/source/dcgm"
)

// The fake client library in the folder scratch is compiled when a test first needs it. Fuzzing workers never need it.
var scratch string

var library = sync.OnceValue(func() string {
	path, err := fakes.CompileDCGM(scratch)
	if err != nil {
		panic(err)
	}
	return path
})

func TestMain(m *testing.M) {
	if path := os.Getenv(otherLibrary); path != "" {
		printError(path)
		return
	}
	var err error
	if scratch, err = os.MkdirTemp("", "dcgm"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

// An engine is the fake host engine and its state file.
type engine struct {
	t     *testing.T
	dir   string
	clock *gputest.Clock
	node  gputest.Node
	// fields is added to the engine's record in the state file. lines are added at the end of the file.
	fields string
	lines  []string
	cfg    dcgm.Config

	logged bytes.Buffer // log of the enricher that was opened last
}

func newEngine(t *testing.T, gpus ...gputest.GPU) *engine {
	address, err := dcgm.ParseAddress("localhost:5555")
	if err != nil {
		t.Fatal(err)
	}
	e := &engine{t: t, dir: t.TempDir(), clock: gputest.NewClock(), node: gputest.Node{GPUs: gpus}}
	e.cfg = dcgm.Config{Address: address, LibraryPath: library(), CallTimeout: gputest.HangTimeout, Tick: time.Second, Now: e.clock.Now}
	t.Setenv("GPULEDGER_FAKE_DCGM_STATE", filepath.Join(e.dir, "state"))
	t.Setenv("GPULEDGER_FAKE_DCGM_LOG", filepath.Join(e.dir, "log"))
	e.write()
	return e
}

const temperature = "DCGM_FI_DEV_GPU_TEMP, gauge, x"

func pair() []gputest.GPU { return []gputest.GPU{gputest.Full(0), gputest.Full(1)} }

func (e *engine) write() {
	e.t.Helper()
	lines := append([]string{nodestate.Driver(e.node), fmt.Sprintf("engine\tnow=%d%s", e.clock.Now().Wall.UnixMicro(), e.fields)}, e.lines...)
	for _, g := range e.node.GPUs {
		lines = append(lines, nodestate.Records(g)...)
	}
	path := filepath.Join(e.dir, "state")
	if err := os.WriteFile(path+".next", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		e.t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		e.t.Fatal(err)
	}
}

func (e *engine) add(format string, args ...any) {
	e.lines = append(e.lines, fmt.Sprintf(format, args...))
	e.write()
}

// fault injects a fault, such as fail:999 or hang, into a call for a GPU.
func (e *engine) fault(uuid, call, do string) { e.add("fault\tgpu=%s\tcall=%s\tdo=%s", uuid, call, do) }

func (e *engine) healed() {
	e.lines = nil
	e.write()
}

func (e *engine) pass(d time.Duration) {
	e.clock.Advance(d)
	e.write()
}

// enriched combines a driver that reports the node with the enricher under test.
type enriched struct {
	*dcgm.Enricher
	engine *engine
}

func (e *engine) open() enriched {
	e.write()
	e.cfg.Log = slog.New(slog.NewTextHandler(&e.logged, nil))
	s := enriched{dcgm.New(e.cfg), e}
	e.t.Cleanup(func() {
		e.healed()
		if err := s.Close(time.Minute); err != nil {
			e.t.Error(err)
		}
		e.checkLeaks()
	})
	return s
}

func (s enriched) Read(ctx context.Context) (gpu.Report, error) {
	report := s.engine.driver()
	err := s.Enrich(ctx, &report)
	return report, err
}

// The driver does not measure the activity of MIG instances.
func (e *engine) driver() gpu.Report {
	r := gpu.Report{Drivers: []gpu.Driver{{Vendor: "NVIDIA", Name: "nvml", Details: map[string]string{"nvml_version": "13"}}}}
	for _, g := range e.node.GPUs {
		g.Reading.UUID, g.Reading.At = g.Device.UUID, e.clock.Now()
		g.Reading.Instances, g.Reading.InstancesKnown = nil, false
		r.Devices, r.Readings = append(r.Devices, g.Device), append(r.Readings, g.Reading)
	}
	return r
}

// calls returns each call as its name and return code, separated by a space.
func (e *engine) calls() (out []string) {
	log, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	for line := range strings.Lines(string(log)) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		out = append(out, fields[1]+" "+fields[3])
	}
	return out
}

// count returns how often an element of calls occurs.
func (e *engine) count(call string) (n int) {
	for _, c := range e.calls() {
		if c == call {
			n++
		}
	}
	return n
}

// watched returns the fields that are watched in the current connection, as kind/entity/field.
func (e *engine) watched() map[string]bool {
	watched := make(map[string]bool)
	log, _ := os.ReadFile(filepath.Join(e.dir, "log"))
	for line := range strings.Lines(string(log)) {
		switch fields := strings.Split(strings.TrimSpace(line), "\t"); {
		case connects(fields[1]) && fields[3] == "0", fields[3] == "-21":
			clear(watched)
		case fields[1] == "dcgmWatch":
			watched[fields[4]] = true
		case fields[1] == "dcgmUnwatch":
			delete(watched, fields[4])
		}
	}
	return watched
}

// checkLeaks checks that all groups were removed, that every call was made with a connection, and that every requested
// value was watched.
func (e *engine) checkLeaks() {
	e.t.Helper()
	if n := e.count("dcgmNotWatched -16"); n > 0 {
		e.t.Errorf("%d values were requested although they are not watched", n)
	}
	if left := slices.Sorted(maps.Keys(e.watched())); len(left) > 0 {
		e.t.Errorf("the engine still watches %v", left)
	}
	held := make(map[string]int)
	connected := false
	for _, call := range e.calls() {
		name, code, _ := strings.Cut(call, " ")
		switch {
		case connects(name) && code == "0":
			connected = true
			clear(held)
		case call == "dcgmShutdown 0":
			connected = false
			for what, n := range held {
				if n != 0 {
					e.t.Errorf("%d %s were left in the engine", n, what)
				}
			}
		case code == "-21":
			clear(held) // these calls need only the library
		case !connected && name != "dcgmInit" && name != "dcgmVersionInfo" && !connects(name):
			e.t.Errorf("%s was called without a connection", name)
		case code != "0":
		case strings.HasSuffix(name, "Create"):
			held[strings.TrimSuffix(name, "Create")]++
		case strings.HasSuffix(name, "Destroy"):
			held[strings.TrimSuffix(name, "Destroy")]--
		}
	}
}

func connects(call string) bool {
	return strings.HasPrefix(call, "dcgmConnect") || call == "dcgmStartEmbedded"
}

func (e *engine) readAll(s enriched) gpu.Report {
	e.t.Helper()
	report := gputest.Read(e.t, s)
	gputest.Check(e.t, report, e.node)
	return report
}
