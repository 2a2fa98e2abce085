package app_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"github.com/gpuledger/gpuledger/collector"
	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
	"github.com/gpuledger/gpuledger/internal/simnode/fakes"
	"github.com/gpuledger/gpuledger/test/golden"
)

// library is the path of the fake driver library. client is the path of the fake client library of the host engine.
// Both are compiled once for the package.
var library, client string

func TestMain(m *testing.M) { os.Exit(fakes.Main(m, &library, &client)) }

// bench is a simulated node and an exporter without its HTTP server. The exporter makes the same driver calls and gRPC
// calls, and reads the same files, as in production. A simulated clock makes the results reproducible.
type bench struct {
	t     testing.TB
	clock sync.Mutex // locked while now changes
	now   gpu.Instant
	world *simnode.Node
	cfg   app.Config
	node  *app.Node
	ticks int
}

// If engine is set, the exporter also reads the host engine.
func newBench(t testing.TB, scenario string, engine bool) *bench {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return benchOf(t, sc, engine)
}

func benchOf(t testing.TB, sc simnode.Scenario, engine bool, flags ...string) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "node") // a short path, because it contains a socket
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, now: gpu.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Boot: 240 * time.Hour}}
	if b.world, err = simnode.Open(dir, sc, b.now); err != nil {
		t.Fatal(err)
	}
	for _, env := range b.world.Env() {
		name, value, _ := strings.Cut(env, "=")
		t.Setenv(name, value)
	}
	args := append(b.world.Flags(), "--nvml.library="+library, "--nvml.call-timeout=5m")
	args = append(args, flags...)
	if engine {
		args = append(args, b.world.EngineFlags(client)...)
	}
	if b.cfg, err = app.Parse(args, os.Getenv); err != nil {
		t.Fatal(err)
	}
	b.start()
	t.Cleanup(func() {
		b.stop()
		if err := b.world.Close(); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	return b
}

func (b *bench) start() {
	clock := func() gpu.Instant {
		b.clock.Lock()
		defer b.clock.Unlock()
		return b.now
	}
	b.node = app.NewNode(b.cfg, clock, slog.New(slog.DiscardHandler))
}

func (b *bench) advance(d time.Duration) {
	b.clock.Lock()
	defer b.clock.Unlock()
	b.now.Wall, b.now.Boot = b.now.Wall.Add(d), b.now.Boot+d
}

func (b *bench) stop() {
	if err := b.node.Source.Close(time.Second); err != nil {
		b.t.Error(err)
	}
	if err := b.node.Sampler.Close(); err != nil {
		b.t.Error(err)
	}
}

// run simulates a number of seconds. It runs a tick every second, and polls the kubelet every ten seconds.
func (b *bench) run(seconds int) {
	b.t.Helper()
	for range seconds {
		if b.ticks%10 == 0 {
			if err := b.node.Mapper.Refresh(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
			if err := b.node.Units.Refresh(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
		}
		b.node.Sampler.Tick(b.t.Context())
		b.step()
	}
}

// runSlowly ticks every half minute.
func (b *bench) runSlowly(minutes int) {
	b.t.Helper()
	for range 2 * minutes {
		b.advance(29 * time.Second)
		b.run(1)
	}
}

func (b *bench) step() {
	b.t.Helper()
	b.ticks++
	b.advance(time.Second)
	if err := b.world.Step(b.now); err != nil {
		b.t.Fatal(err)
	}
}

// awaitXID runs the source's event loop until an XID error arrives. In the meantime, the clock is stopped, so the time
// of the error is reproducible.
func (b *bench) awaitXID() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(b.t.Context())
	done := make(chan error, 1)
	go func() { done <- b.node.NVML.Run(ctx) }()
	arrived := func(g gpu.GPU) bool { return g.Events.Count > 0 }
	for !slices.ContainsFunc(b.node.Sampler.Latest().GPUs, arrived) {
		b.node.Sampler.Tick(ctx)
	}
	cancel()
	if err := <-done; err != nil {
		b.t.Error(err)
	}
}

func (b *bench) page() string {
	b.t.Helper()
	return b.render(collector.New(b.node.Sampler.Latest, b.cfg.Collector))
}

func (b *bench) record() string {
	b.t.Helper()
	return b.render(collector.NewRecord(b.node.Sampler.Latest))
}

func (b *bench) render(c prometheus.Collector) string {
	b.t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	families, err := registry.Gather()
	if err != nil {
		b.t.Fatal(err)
	}
	var page bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&page, f); err != nil {
			b.t.Fatal(err)
		}
	}
	return page.String()
}

// runTimeless runs a subtest in a bubble of synctest. The time in a bubble does not change while a call is in flight.
// Therefore no timeout expires, and the results do not depend on the speed of the machine.
func runTimeless(t *testing.T, name string, test func(t *testing.T)) {
	t.Run(name, func(t *testing.T) { synctest.Test(t, test) })
}

// TestGolden compares both pages of every scenario with golden files, after half a minute of simulated time. To update
// the golden files, run go test ./internal/app -update and review the diff. With -short, it runs only one scenario of
// each kind.
func TestGolden(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		if testing.Short() && !slices.Contains([]string{"lost", "mig", "slurm", "mixed"}, sc.Name) {
			continue
		}
		runTimeless(t, sc.Name, func(t *testing.T) {
			got := play(t, sc.Name, false)
			golden.Check(t, sc.Name+".prom", []byte(got.page()))
			golden.Check(t, sc.Name+".record.prom", []byte(got.record()))
			got.explained()
			got.checkStatus(sc.Name)
		})
	}
}

// TestGoldenWithEngine checks that the pages are the same with and without a host engine, except
// for lines about sources.
func TestGoldenWithEngine(t *testing.T) {
	for _, name := range []string{"dgx-h100", "mig", "lost"} {
		runTimeless(t, name, func(t *testing.T) {
			b := play(t, name, true)
			if page := b.page(); !strings.Contains(page, `dcgm_version="4.6.1"`) || !strings.Contains(page, `gpuledger_stage_up{stage="dcgm"} 1`) {
				t.Error("the page shows no readings of the host engine")
			}
			b.wantPages(name, func(golden string) string { return golden })
		})
	}
}

// TestActivityByEngine checks the charges of pods on MIG instances of an A100, for which the driver does not measure
// activity. If a host engine measures the activity, the pods must be charged by activity. Otherwise, they must be
// charged by the number of slices in their instances.
func TestActivityByEngine(t *testing.T) {
	for _, engine := range []bool{false, true} {
		b := play(t, "mig-a100", engine)
		var energy gpu.ByMethod
		for _, g := range b.node.Sampler.Latest().GPUs {
			for _, a := range g.Book.Accounts {
				energy = energy.Plus(a.Energy)
			}
		}
		if (energy[gpu.Shared] > 0) != engine || energy[gpu.Exclusive] > 0 {
			t.Errorf("host engine %v: energy by method is %v mJ", engine, energy)
		}
	}
}

var resourceLabel = regexp.MustCompile(`resource="nvidia\.com/[^"]+"`)

// TestGoldenOnGKE checks that, with Google's device plugin, only the name of the resource differs from the golden
// pages.
func TestGoldenOnGKE(t *testing.T) {
	for _, name := range []string{"dgx-h100", "timeslice", "mps", "mig"} {
		runTimeless(t, name, func(t *testing.T) {
			sc, err := simnode.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			sc.GooglePlugin = true
			b := benchOf(t, sc, false)
			b.cfg.Collector.Health = name == "timeslice"
			b.run(30)
			b.wantPages(name, func(golden string) string {
				return resourceLabel.ReplaceAllLiteralString(golden, `resource="nvidia.com/gpu"`)
			})
		})
	}
}

// wantPages edits the golden pages of a scenario and compares both pages with the result, except for lines about
// sources.
func (b *bench) wantPages(scenario string, edit func(golden string) string) {
	b.t.Helper()
	for name, got := range map[string]string{scenario: b.page(), scenario + ".record": b.record()} {
		want, err := os.ReadFile(filepath.Join("testdata", name+".prom"))
		if err != nil {
			b.t.Fatal(err)
		}
		if diff := cmp.Diff(withoutSources(edit(string(want))), withoutSources(got)); diff != "" {
			b.t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func withoutSources(page string) []string {
	return slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "gpuledger_driver_info") || strings.HasPrefix(line, "gpuledger_stage_")
	})
}

func play(t *testing.T, scenario string, engine bool) *bench {
	b := newBench(t, scenario, engine)
	b.cfg.Collector.Health = scenario == "timeslice" // one scenario suffices, because all scenarios have the same health values
	b.run(8)
	if scenario == "lost" {
		b.awaitXID()
	}
	b.run(22)
	b.balanced()
	return b
}

// balanced checks that the accounts of every GPU add up to its energy.
func (b *bench) balanced() {
	b.t.Helper()
	for _, g := range b.node.Sampler.Latest().GPUs {
		if g.Book != nil && g.Book.Energy != g.Book.Sum() {
			b.t.Errorf("%s: the book contains %d mJ, but its accounts sum to %d mJ", g.UUID, g.Book.Energy, g.Book.Sum())
		}
	}
}
