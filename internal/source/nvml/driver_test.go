package nvml_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/gpu/gputest"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes/nodestate"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
)

var libraryPath string

func TestMain(m *testing.M) {
	if path := os.Getenv(oldLibrary); path != "" {
		printReport(path)
		return
	}
	os.Exit(fakes.Main(m, &libraryPath, nil))
}

// A driver is the fake driver library and its state file.
type driver struct {
	t    *testing.T
	path string
	node gputest.Node
	// lines are added at the end of the state file. fields are added to its gpu records.
	lines  []string
	fields map[string]string // additional fields by UUID, separated by tabs
	system string            // additional fields of the driver record, separated by tabs
	proc   string            // procfs with the memory of the machine, or empty
	// profiling enables profiles. plain disables the details of health.
	profiling, plain bool
	tick             time.Duration // usual interval between two readings of the sources, or 0

	logged bytes.Buffer // log of the source that was opened last
	stages *stage.Set   // stages of the source that was opened last
}

func newDriver(t *testing.T, n gputest.Node) *driver {
	dir := t.TempDir()
	d := &driver{t: t, path: filepath.Join(dir, "state"), node: n, fields: map[string]string{}}
	t.Setenv("GPULEDGER_FAKE_NVML_STATE", d.path)
	t.Setenv("GPULEDGER_FAKE_NVML_LOG", filepath.Join(dir, "log"))
	d.write()
	return d
}

// open returns a source that waits for slow calls. Tests with hanging calls use [gputest.Hasty].
func (d *driver) open(now gpu.Clock) *nvml.Source { return d.openWith(gputest.HangTimeout, now) }

func (d *driver) openWith(callTimeout time.Duration, now gpu.Clock) *nvml.Source {
	d.stages = stage.New(slog.New(slog.DiscardHandler), now)
	s := nvml.New(nvml.Config{
		LibraryPath: libraryPath, CallTimeout: callTimeout, Now: now, ProcFS: d.proc, Health: true, Details: !d.plain, Profiling: d.profiling, Tick: d.tick,
		Log: slog.New(slog.NewTextHandler(&d.logged, nil)), Stages: d.stages,
	})
	d.t.Cleanup(func() {
		d.change(gputest.Node{Loads: d.node.Loads}) // ends hanging calls and loads the driver
		if err := s.Close(time.Minute); err != nil && !strings.Contains(err.Error(), "nvmlShutdown: ") {
			d.t.Error(err)
		}
		if n := d.calls("nvmlShutdown"); n > 0 && d.last() != "nvmlShutdown" {
			d.t.Errorf("%s was called after the driver was shut down", d.last())
		}
	})
	return s
}

func (d *driver) change(n gputest.Node) {
	d.node, d.lines, d.fields = n, nil, map[string]string{}
	d.write()
}

// fault injects a fault, such as fail:999 or hang, into a call for a GPU.
func (d *driver) fault(uuid, call, do string) {
	d.lines = append(d.lines, fmt.Sprintf("fault\tgpu=%s\tcall=%s\tdo=%s", uuid, call, do))
	d.write()
}

func (d *driver) healed() {
	d.lines = nil
	d.write()
}

func (d *driver) add(format string, args ...any) {
	d.lines = append(d.lines, fmt.Sprintf(format, args...))
	d.write()
}

func (d *driver) write() {
	d.t.Helper()
	lines := []string{nodestate.Driver(d.node) + d.system}
	for _, g := range d.node.GPUs {
		lines = append(lines, nodestate.Records(g)...)
		if extra := d.fields[g.Device.UUID]; extra != "" {
			for i, l := range lines {
				if strings.HasPrefix(l, "gpu\tuuid="+g.Device.UUID) {
					lines[i] += "\t" + extra
				}
			}
		}
	}
	lines = append(lines, d.lines...)
	next := d.path + ".next"
	if err := os.WriteFile(next, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
		d.t.Fatal(err)
	}
	if err := os.Rename(next, d.path); err != nil {
		d.t.Fatal(err)
	}
}

func (d *driver) calls(function string) int {
	return strings.Count(d.log(), "\t"+function+"\t")
}

func (d *driver) last() string {
	log := d.log()
	line := log[strings.LastIndexByte(strings.TrimSuffix(log, "\n"), '\n')+1:]
	return strings.Split(line, "\t")[1]
}

func (d *driver) log() string {
	log, _ := os.ReadFile(filepath.Join(filepath.Dir(d.path), "log"))
	return string(log)
}

func (d *driver) await(function string, calls int) {
	d.t.Helper()
	deadline := time.After(gputest.HangTimeout)
	for d.calls(function) < calls {
		select {
		case <-deadline:
			d.t.Fatalf("timeout: waited %v for call %d of %s", gputest.HangTimeout, calls, function)
		case <-time.After(time.Millisecond):
		}
	}
}
