package app_test

import (
	"bytes"
	"context"
	"flag"
	"log/slog"
	"os"
	"path/filepath"
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
)

var update = flag.Bool("update", false, "write the golden pages")

// library is the fake driver, compiled once for the package.
var library string

func TestMain(m *testing.M) {
	flag.Parse()
	dir, err := os.MkdirTemp("", "gpuledger-app")
	if err != nil {
		panic(err)
	}
	if library, err = fakes.Compile(dir); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

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

func newBench(t testing.TB, scenario string) *bench {
	t.Helper()
	sc, err := simnode.Lookup(scenario)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "node") // short: a socket lives in it
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
	args := append(b.world.Flags(), "--nvml.library="+library, "--nvml.call-timeout=10s")
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
	ctx, cancel := context.WithTimeout(b.t.Context(), 30*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- b.node.Source.Run(ctx) }()
	arrived := func(g gpu.GPU) bool { return g.XIDs.Count > 0 }
	for ctx.Err() == nil && !slices.ContainsFunc(b.node.Sampler.Latest().GPUs, arrived) {
		<-time.After(10 * time.Millisecond)
		b.node.Sampler.Tick(ctx)
	}
	if ctx.Err() != nil {
		b.t.Error("waited in vain for an XID error")
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
			b := newBench(t, sc.Name)
			b.run(8)
			if sc.Name == "lost" {
				b.awaitXID()
			}
			b.run(22)
			checkGolden(t, sc.Name, b.page())
			checkGolden(t, sc.Name+".record", b.record())
			b.checkStatus(sc.Name)
			b.balanced()
		})
	}
}

// checkGolden compares a page with its file.
func checkGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".prom")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
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
