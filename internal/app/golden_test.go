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
	"testing"
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

// library is the fake driver, client the fake library of its host engine, compiled once
// for the package.
var library, client string

func TestMain(m *testing.M) { os.Exit(fakes.Main(m, &library, &client)) }

// bench is a simulated node with the whole exporter but its HTTP server on top,
// all on an invented clock: the same driver calls, gRPC calls and files as in
// production, and the same result every time.
type bench struct {
	t     testing.TB
	now   gpu.Instant
	world *simnode.Node
	cfg   app.Config
	node  *app.Node
	ticks int
}

// newBench makes a bench; with the engine, the host engine is read.
func newBench(t testing.TB, scenario string, engine bool) *bench {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	return benchOf(t, sc, engine)
}

// benchOf makes a bench of a scenario that has no name.
func benchOf(t testing.TB, sc simnode.Scenario, engine bool) *bench {
	t.Helper()
	dir, err := os.MkdirTemp("", "node") // short: it contains a socket
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
	b.node = app.NewNode(b.cfg, func() gpu.Instant { return b.now }, slog.New(slog.DiscardHandler))
}

func (b *bench) stop() {
	if err := b.node.Source.Close(time.Second); err != nil {
		b.t.Error(err)
	}
	if err := b.node.Sampler.Close(); err != nil {
		b.t.Error(err)
	}
}

// run lets seconds pass: one tick each, a kubelet poll every ten.
func (b *bench) run(seconds int) {
	b.t.Helper()
	for range seconds {
		if b.ticks%10 == 0 {
			if err := b.node.Mapper.Refresh(b.t.Context()); err != nil {
				b.t.Fatal(err)
			}
		}
		b.node.Sampler.Tick(b.t.Context())
		b.ticks++
		b.now.Wall, b.now.Boot = b.now.Wall.Add(time.Second), b.now.Boot+time.Second
		if err := b.world.Step(b.now); err != nil {
			b.t.Fatal(err)
		}
	}
}

// awaitXID lets the source wait for events until one error has arrived. The clock
// stands still meanwhile, so that it is known when.
func (b *bench) awaitXID() {
	b.t.Helper()
	ctx, cancel := context.WithTimeout(b.t.Context(), 5*time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.node.NVML.Run(ctx) }()
	arrived := func(g gpu.GPU) bool { return g.Events.Count > 0 }
	for ctx.Err() == nil && !slices.ContainsFunc(b.node.Sampler.Latest().GPUs, arrived) {
		<-time.After(10 * time.Millisecond)
		b.node.Sampler.Tick(ctx)
	}
	if ctx.Err() != nil {
		b.t.Error("no XID error arrived in time")
	}
	cancel()
	if err := <-done; err != nil {
		b.t.Error(err)
	}
}

// page renders what a scrape of the main page would show now.
func (b *bench) page() string {
	b.t.Helper()
	return b.render(collector.New(b.node.Sampler.Latest, b.cfg.Collector))
}

// record renders what a scrape of the record would show now.
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

// TestGolden holds both pages of every scenario after half a minute. The diff is the
// review: go test ./internal/app -update.
func TestGolden(t *testing.T) {
	for _, sc := range simnode.Scenarios() {
		t.Run(sc.Name, func(t *testing.T) {
			got := play(t, sc.Name, false)
			golden.Check(t, sc.Name+".prom", []byte(got.page()))
			golden.Check(t, sc.Name+".record.prom", []byte(got.record()))
			got.checkStatus(sc.Name)
		})
	}
}

// TestGoldenWithEngine checks that beside a host engine the same machine has the same pages, except
// for lines about sources.
func TestGoldenWithEngine(t *testing.T) {
	for _, name := range []string{"dgx-h100", "mig", "lost"} {
		t.Run(name, func(t *testing.T) {
			b := play(t, name, true)
			if page := b.page(); !strings.Contains(page, `dcgm_version="4.6.1"`) || !strings.Contains(page, `gpuledger_stage_up{stage="dcgm"} 1`) {
				t.Error("the engine is not read")
			}
			b.wantPages(name, func(golden string) string { return golden })
		})
	}
}

// TestActivityByEngine: the driver of an A100 does not measure the activity of MIG instances,
// so each is charged by its slices. A host engine measures it.
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
			t.Errorf("with an engine: %v, energy by method is %v mJ", engine, energy)
		}
	}
}

var resourceLabel = regexp.MustCompile(`resource="nvidia\.com/[^"]+"`)

// TestGoldenOnGKE checks that with Google's device plugin and the same devices the pages differ in
// the resource's name only.
func TestGoldenOnGKE(t *testing.T) {
	for _, name := range []string{"dgx-h100", "timeslice", "mps", "mig"} {
		t.Run(name, func(t *testing.T) {
			sc, err := simnode.Lookup(name)
			if err != nil {
				t.Fatal(err)
			}
			sc.GooglePlugin = true
			b := benchOf(t, sc, false)
			b.run(30)
			b.wantPages(name, func(golden string) string {
				return resourceLabel.ReplaceAllLiteralString(golden, `resource="nvidia.com/gpu"`)
			})
		})
	}
}

// wantPages compares both pages, without lines about sources, with the goldens of a scenario after
// an edit.
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

// withoutSources returns a page without lines about sources of readings.
func withoutSources(page string) []string {
	return slices.DeleteFunc(strings.Split(page, "\n"), func(line string) bool {
		return strings.HasPrefix(line, "gpuledger_driver_info") || strings.HasPrefix(line, "gpuledger_stage_")
	})
}

// play runs a scenario for half a minute.
func play(t *testing.T, scenario string, engine bool) *bench {
	b := newBench(t, scenario, engine)
	b.run(8)
	if scenario == "lost" {
		b.awaitXID()
	}
	b.run(22)
	b.balanced()
	return b
}

// balanced checks that every book adds up.
func (b *bench) balanced() {
	b.t.Helper()
	for _, g := range b.node.Sampler.Latest().GPUs {
		if g.Book != nil && g.Book.Energy != g.Book.Sum() {
			b.t.Errorf("%s: energy %d mJ, accounts %d mJ", g.UUID, g.Book.Energy, g.Book.Sum())
		}
	}
}
