package accuracy

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/gpuledger/gpuledger/internal/app"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/simnode"
)

const (
	tick = time.Second
	// refresh is the interval at which the exporter reads the allocations while containers start and stop.
	refresh = 2 * time.Second
	// phase is the delay between the start of the node and the start of the exporter. Without it, workloads would
	// change on the exporter's ticks, and the energy counter would be updated immediately before a tick.
	phase = 450 * time.Millisecond
	// pace is a common divisor of the node's steps, phase and tick.
	pace = 50 * time.Millisecond
)

var start = gpu.Instant{Wall: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), Boot: 240 * time.Hour}

// A bench is a simulated node and an exporter without its HTTP server. Both use a simulated clock.
type bench struct {
	Case
	node     *simnode.Node
	world    world
	ledger   ledger
	config   app.Config
	exporter *app.Node // nil while the exporter is down
	now      gpu.Instant
	clock    gpu.Clock // clock of the exporter

	journal journal
	pidInfo pidInfoRule
	smShare smShareRule
	// These rules simulate other programs, which continue while the exporter is down.
	previous previousRule
	scraped  scrapedRule
}

// Play runs a case for the given length of simulated time. library is the path of the fake driver (package fakes). Only
// one case can run at a time, because Play sets environment variables of the process.
func Play(ctx context.Context, library string, c Case, length time.Duration) (r Result, err error) {
	dir, err := os.MkdirTemp("", "node") // the path is short, because it contains a socket
	if err != nil {
		return Result{}, err
	}
	defer os.RemoveAll(dir)
	c.Scenario.NoTruth = true
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	b := &bench{Case: c, now: start}
	b.clock = func() gpu.Instant { return b.now }
	if began := time.Now(); c.Live {
		b.clock = func() gpu.Instant { return after(start, time.Since(began)) }
	}
	if b.node, err = simnode.Open(dir, c.Scenario, start); err != nil {
		return Result{}, err
	}
	defer b.node.Close()
	if err := b.configure(library); err != nil {
		return Result{}, err
	}
	b.world = newWorld(c.Scenario)
	if err := b.play(ctx, length); err != nil {
		return Result{}, fmt.Errorf("%s: %w", c.Name, err)
	}
	return b.result()
}

func (b *bench) configure(library string) (err error) {
	for _, env := range b.node.Env() {
		name, value, _ := strings.Cut(env, "=")
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	// The timeout is long, so that a busy machine does not affect the result.
	flags := append(b.node.Flags(), "--nvml.library="+library, "--nvml.call-timeout=30s", "--retention=30s")
	b.config, err = app.Parse(flags, func(string) string { return "" })
	return err
}

// play runs one tick of the exporter for every second in which the exporter is up.
func (b *bench) play(ctx context.Context, length time.Duration) error {
	if err := b.advance(phase); err != nil {
		return err
	}
	for t := time.Duration(0); t <= length; t += tick {
		if b.Down.Until > 0 && t >= b.Down.From && t < b.Down.Until {
			if err := b.stop(); err != nil {
				return err
			}
		} else if err := b.look(ctx, t); err != nil {
			return err
		}
		if err := b.advance(tick); err != nil {
			return err
		}
	}
	return nil
}

func after(t gpu.Instant, d time.Duration) gpu.Instant {
	return gpu.Instant{Wall: t.Wall.Add(d), Boot: t.Boot + d}
}

// advance changes the node's files only once, unless Live is set. Then the exporter also reads files between two ticks.
func (b *bench) advance(d time.Duration) error {
	if !b.Live {
		return b.watch(d)
	}
	for ; d > 0; d -= pace {
		time.Sleep(pace)
		if err := b.watch(pace); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) watch(d time.Duration) error {
	b.now = after(b.now, d)
	return b.node.Watch(b.now, func(row simnode.Truth, on []simnode.Activity) {
		g := row.GPUs[0]
		energy := float64(g.Energy - b.world.last.Energy)
		b.journal.add(time.Duration(row.Boot), perfect, b.world.perfect(energy, on))
		b.journal.add(time.Duration(row.Boot), truth, b.world.truth(g))
		b.journal.add(time.Duration(row.Boot), userPays, b.world.workingFloor(on))
	})
}

// look starts the exporter if it was down.
func (b *bench) look(ctx context.Context, t time.Duration) error {
	if b.exporter == nil {
		b.exporter = app.NewNode(b.config, b.clock, slog.New(slog.DiscardHandler))
		if source := b.exporter.AMD; b.Live {
			go func() { _ = source.Run(ctx) }() // it returns nil when Play ends
		}
		b.smShare.there = nil // this rule keeps no state when the exporter restarts
	}
	if t%refresh == 0 {
		if err := b.exporter.Mapper.Refresh(ctx); err != nil {
			return err
		}
		if err := b.exporter.Units.Refresh(ctx); err != nil {
			return err
		}
	}
	b.exporter.Sampler.Tick(ctx)
	g, err := b.snapshot()
	if err != nil {
		return err
	}
	b.journal.add(g.Book.Settled.Boot, charged, b.ledger.read(g.Book))
	b.journal.add(b.now.Boot, pidInfo, b.pidInfo.read(g))
	b.journal.add(b.now.Boot, smShare, b.smShare.read(g))
	b.journal.add(b.now.Boot, scraped, b.scraped.read(g))
	if b.world.gpu.MIG == nil {
		b.journal.add(b.now.Boot, previous, b.previous.read(g))
	}
	return nil
}

func (b *bench) snapshot() (*gpu.GPU, error) {
	snap := b.exporter.Sampler.Latest()
	if snap == nil || len(snap.GPUs) != 1 || snap.GPUs[0].Reading == nil || snap.GPUs[0].Book == nil {
		return nil, fmt.Errorf("no reading or no book at %v", b.now.Boot-start.Boot)
	}
	return &snap.GPUs[0], nil
}

// stop ends the exporter as SIGTERM does.
func (b *bench) stop() error {
	if b.exporter == nil {
		return nil
	}
	e := b.exporter
	b.exporter = nil
	if err := e.Source.Close(time.Minute); err != nil {
		return err
	}
	return e.Sampler.Close()
}
