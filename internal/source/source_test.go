package source_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/dcgm"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/nvml"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// library and client are the fake driver library and the fake library of the engine.
var library, client string

func TestMain(m *testing.M) { os.Exit(fakes.Main(m, &library, &client)) }

// A machine has both fakes, each with its own state.
type machine struct {
	t      *testing.T
	dir    string
	node   gputest.Node
	clock  gpu.Clock
	skew   time.Duration // by which our time is past the clock's
	engine string        // fields of the engine
	// library is what the driver's library shows of a GPU.
	library func(gputest.GPU) gputest.GPU
	stages  *stage.Set
}

func newMachine(t *testing.T, n gputest.Node, clock gpu.Clock, shown func(gputest.GPU) gputest.GPU) *machine {
	m := &machine{t: t, dir: t.TempDir(), node: n, clock: clock, engine: "\teager=1", library: shown}
	t.Setenv("GPULEDGER_FAKE_NVML_STATE", filepath.Join(m.dir, "library"))
	t.Setenv("GPULEDGER_FAKE_DCGM_STATE", filepath.Join(m.dir, "engine"))
	t.Setenv("GPULEDGER_FAKE_DCGM_LOG", filepath.Join(m.dir, "log"))
	m.write()
	return m
}

// unseen is what the library must say, since the engine cannot: who is on the GPU, the
// names of MIG devices, and whether the driver tells events. All the rest is the engine's.
func unseen(g gputest.GPU) gputest.GPU {
	d, r := g.Device, g.Reading
	g.Device = gpu.Device{UUID: d.UUID, Index: d.Index, BoardPartNumber: d.BoardPartNumber, MIG: d.MIG, XIDEvents: d.XIDEvents}
	g.Reading = gpu.Reading{Contexts: r.Contexts, ContextsKnown: r.ContextsKnown, Samples: r.Samples, SamplesKnown: r.SamplesKnown}
	return g
}

func (m *machine) now() gpu.Instant {
	now := m.clock()
	return gpu.Instant{Wall: now.Wall.Add(m.skew), Boot: now.Boot + m.skew}
}

func (m *machine) write() {
	m.t.Helper()
	shown := gputest.Node{Down: m.node.Down, Loads: m.node.Loads}
	for _, g := range m.node.GPUs {
		shown.GPUs = append(shown.GPUs, m.library(g))
	}
	m.put("library", shown)
	m.put("engine", m.node, fmt.Sprintf("engine\tnow=%d%s", m.now().Wall.UnixMicro(), m.engine))
}

func (m *machine) put(name string, n gputest.Node, lines ...string) {
	m.t.Helper()
	lines = append(lines, nodestate.Driver(n))
	for _, g := range n.GPUs {
		lines = append(lines, nodestate.Records(g)...)
	}
	path := filepath.Join(m.dir, name)
	if err := os.WriteFile(path+".next", []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(path+".next", path); err != nil {
		m.t.Fatal(err)
	}
}

// change makes the machine another node. While a GPU is stuck time goes by: an engine that
// answers still has what it read before.
func (m *machine) change(n gputest.Node) {
	m.node = n
	for _, g := range n.GPUs {
		if g.Stuck && !strings.Contains(m.engine, "up=0") {
			m.skew += time.Minute
		}
	}
	m.write()
}

// open returns a source that reads the machine, and closes it with the test.
func (m *machine) open(alone bool) gputest.Source {
	address, err := dcgm.ParseAddress("localhost:5555")
	if err != nil {
		m.t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	m.stages = stage.New(log, m.now)
	s := source.New(source.Config{
		NVML: nvml.New(nvml.Config{LibraryPath: library, CallTimeout: gputest.Patience, Now: m.now, Log: log, Stages: m.stages}),
		DCGM: dcgm.New(dcgm.Config{
			Address: address, LibraryPath: client, CallTimeout: gputest.Patience, Tick: time.Second, Profiling: true, Now: m.now, Log: log,
		}),
		Alone: alone, Now: m.now, Log: log, Stages: m.stages,
	})
	m.t.Cleanup(func() {
		m.change(gputest.Node{Loads: m.node.Loads})
		if err := s.Close(time.Minute); err != nil && !strings.Contains(err.Error(), "nvmlShutdown: ") {
			m.t.Error(err)
		}
	})
	return ticking{m, s}
}

// ticking lets the engine's clock go with ours, and waits for both drivers: after a
// change one of them may be there again a moment before the other.
type ticking struct {
	*machine
	gputest.Source
}

func (t ticking) Read(ctx context.Context) (gpu.Report, error) {
	for deadline := time.Now().Add(gputest.Patience); ; <-time.After(time.Millisecond) {
		t.write()
		report, err := t.Source.Read(ctx)
		if err != nil || t.whole(report) || time.Now().After(deadline) {
			return report, err
		}
	}
}

// whole reports whether the library had its part in a report.
func (t ticking) whole(report gpu.Report) bool {
	for _, r := range report.Readings {
		for _, g := range t.node.GPUs {
			if g.Device.UUID == r.UUID && g.Reading.ContextsKnown && !r.ContextsKnown {
				return false
			}
		}
	}
	return true
}

// TestContract holds the engine to what is asked of every source. Whatever the library
// need not say it does not say, so all else is the engine's word.
func TestContract(t *testing.T) {
	gputest.Run(t, func(t *testing.T, n gputest.Node, now gpu.Clock) (gputest.Source, func(gputest.Node)) {
		m := newMachine(t, n, now, unseen)
		return m.open(true), m.change
	})
}

// TestContractWithoutEngine holds the library to it where an engine should answer and
// does not.
func TestContractWithoutEngine(t *testing.T) {
	gputest.Run(t, func(t *testing.T, n gputest.Node, now gpu.Clock) (gputest.Source, func(gputest.Node)) {
		m := newMachine(t, n, now, func(g gputest.GPU) gputest.GPU { return g })
		m.engine = "\tup=0"
		return m.open(false), m.change
	})
}
