package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/common/version"
	"golang.org/x/sync/errgroup"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/kernellog"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/nfd"
	"github.com/gpuledger/gpuledger/internal/owner"
	"github.com/gpuledger/gpuledger/internal/proc"
	"github.com/gpuledger/gpuledger/internal/sampler"
	"github.com/gpuledger/gpuledger/internal/serve"
	"github.com/gpuledger/gpuledger/internal/source"
	"github.com/gpuledger/gpuledger/internal/source/amd"
	"github.com/gpuledger/gpuledger/internal/source/nvml"
	"github.com/gpuledger/gpuledger/internal/stage"
	"github.com/gpuledger/gpuledger/internal/unit"
	"github.com/gpuledger/gpuledger/podmapper"
)

const (
	// driverGrace is the time for which the shutdown waits for driver calls in flight. The time is
	// short, because a driver upgrade waits for the exporter's pod.
	driverGrace = 500 * time.Millisecond
	// firstPoll limits how long the first tick waits for the kubelet. The tick waits so that the first
	// snapshot contains the allocations.
	firstPoll = 2 * time.Second
)

// Node is the exporter without its HTTP server. The parts are exported for tests that run them step by step.
type Node struct {
	NVML    *nvml.Source
	AMD     *amd.Source
	Source  *source.Group
	Mapper  *podmapper.Mapper
	Units   *unit.Mapper
	Sampler *sampler.Sampler
	Kernel  *kernellog.Log // nil if the kernel log is not read

	releases *releases
}

// NewNode creates and connects the parts. It does not start them.
func NewNode(cfg Config, now gpu.Clock, log *slog.Logger) *Node {
	stages := stage.New(log, now)
	library := nvml.New(nvml.Config{
		LibraryPath: cfg.NVMLLibrary, CallTimeout: cfg.CallTimeout, Tick: cfg.Tick, SysFS: cfg.SysFS, ProcFS: cfg.ProcFS, RestartAfter: cfg.RestartAfter,
		Health: cfg.Collector.Health, Details: cfg.Collector.Details, Profiling: cfg.Collector.Profiling,
		Now: now, Log: log, Stages: stages,
	})
	amdgpu := amd.New(amd.Config{
		Sys: cfg.SysFS, Proc: cfg.ProcFS, Clients: cfg.AMDClients, Health: cfg.Collector.Health,
		Tick: cfg.Tick, CallTimeout: cfg.CallTimeout, Now: now, Log: log,
	})
	machine := host.Host{ProcFS: cfg.ProcFS, SysFS: cfg.SysFS}
	drivers := source.NewGroup(source.Config{
		Members:  cfg.members(library, amdgpu, machine, now),
		Enricher: cfg.enricher(now, log),
		Timeout:  2 * cfg.CallTimeout, Now: now, Stages: stages,
	})
	mapper := podmapper.New(podmapper.Config{
		ProcFS: cfg.ProcFS, ContainerLogs: cfg.ContainerLogs, PodLogs: cfg.PodLogs,
		PodResources: cfg.PodResources, PodsAPI: cfg.PodsAPI, Resources: cfg.Resources.Regexp, Reservations: cfg.Reservations,
		Now: now, Log: log, Stages: stages,
	})
	units := unit.New(cfg.units(mapper, now, log, stages))
	var kernel *kernellog.Log
	if cfg.KernelLog != "" {
		kernel = &kernellog.Log{Path: cfg.KernelLog, Now: now, Stages: stages}
	}
	asked := &releases{path: cfg.StatePath, source: library, now: now, log: log, stages: stages}
	return &Node{releases: asked, NVML: library, AMD: amdgpu, Source: drivers, Mapper: mapper, Units: units, Kernel: kernel, Sampler: sampler.New(sampler.Config{
		Source: drivers, Owners: owner.NewChain(proc.Tree{Root: cfg.ProcFS}, now, units, mapper), Mapper: allocations{mapper, units},
		KernelLog:  kernel.Take,
		PCIClasses: cfg.pciClasses(),
		Host:       machine,
		NodeName:   cfg.NodeName, StatePath: cfg.StatePath, IdlePower: cfg.IdlePower,
		Ledger: ledger.Config{Tick: cfg.Tick, Retention: cfg.Retention, MaxProcesses: cfg.MaxProcesses, Profiling: cfg.Collector.Profiling, Explain: cfg.Explain},
		Now:    now, Log: log, Stages: stages,
	})}
}

// Run executes the command. Without a command it serves until the context ends. If a dependency is
// missing on the node, Run continues. If the driver was replaced, Run ends with [Restart] or
// [nvml.Replaced].
func Run(ctx context.Context, cfg Config, log *slog.Logger) error {
	switch cfg.Command {
	case Cleanup: // a call to the file system may hang
		err, ok := lane.Run(ctx, func() error { return cleanup(cfg, log) })
		if !ok {
			return fmt.Errorf("cleanup: stopped before %s responded", cfg.StatePath)
		}
		return err
	case AMDFiles: // a read of a GPU may hang
		err, ok := lane.Run(ctx, func() error { return amd.Archive(os.Stdout, cfg.SysFS, cfg.ProcFS) })
		if !ok {
			return errors.New("amd-files: stopped before a GPU responded")
		}
		return err
	case Wait:
		<-ctx.Done()
		return nil
	}
	log.Info("starting", "version", version.Version, "revision", version.GetRevision(), "node", cfg.NodeName, "kubernetes", cfg.PodResources != "", "state", cfg.StatePath)
	node := NewNode(cfg, host.Now, log)
	server := serve.New(cfg.Serve, log)
	if cfg.Serving != nil {
		server.Serving(cfg.Serving)
	}
	cfg.replaced = node.NVML.Replaced
	handler := newHandler(node.Sampler.Latest, host.Now, cfg, server.Collector(), log)
	g, ctx := errgroup.WithContext(ctx)
	node.releases.look(ctx) // a release remains in force after a restart
	g.Go(func() error { return node.releases.Run(ctx) })
	g.Go(func() error { return node.Mapper.Run(ctx) })
	g.Go(func() error { return node.Units.Run(ctx) })
	g.Go(func() error { return runNVML(ctx, node.NVML, server) })
	g.Go(func() error { return node.AMD.Run(ctx) })
	if node.Kernel != nil {
		g.Go(func() error { return node.Kernel.Run(ctx) })
	}
	g.Go(func() error {
		awaitPolls(ctx, node.Mapper, node.Units)
		return node.Sampler.Run(ctx)
	})
	inherited := server.Inherit()
	g.Go(func() error {
		if inherited {
			awaitReading(ctx, func() bool { return node.Sampler.Latest() != nil })
		}
		return server.Run(ctx, handler)
	})
	if cfg.Features != "" {
		features := nfd.File{Directory: cfg.Features, Latest: node.Sampler.Latest, Log: log}
		g.Go(func() error { return features.Run(ctx) })
	}
	err := g.Wait()
	if stuck := node.Source.Close(driverGrace); stuck != nil {
		log.Warn("exiting without closing the driver", "err", stuck)
		err = withoutRestart(err)
	}
	return errors.Join(err, node.Sampler.Close())
}

// awaitPolls waits until each mapper has polled once, but at most firstPoll in total.
func awaitPolls(ctx context.Context, mappers ...interface{ Polled() <-chan struct{} }) {
	timer := time.NewTimer(firstPoll)
	defer timer.Stop()
	for _, m := range mappers {
		select {
		case <-m.Polled():
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		}
	}
}
