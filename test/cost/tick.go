package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/gpuledger/gpuledger/internal/cli"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/sampler"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// world responds to all calls of a sampler from memory, so the driver, the kubelet and /proc cost nothing. Only time
// and energy change between ticks.
type world struct {
	now         gpu.Instant
	snapshot    *gpu.Snapshot
	processes   map[uint32]gpu.Process
	allocations gpu.Allocations
}

func newWorld(s size) *world {
	w := &world{snapshot: s.snapshot(0), processes: make(map[uint32]gpu.Process), allocations: gpu.Allocations{Known: true}}
	w.now = w.snapshot.At
	for i := range w.snapshot.GPUs {
		g := &w.snapshot.GPUs[i]
		for _, p := range g.Processes {
			w.processes[p.ID.PID] = *p.Process
		}
		for _, h := range g.Holders {
			w.allocations.List = append(w.allocations.List, gpu.Allocation{
				Owner: h.Owner, Device: gpu.DeviceName{UUID: g.UUID}, UUID: g.UUID, Resource: h.Resource, Sharing: h.Sharing, Replicas: h.Replicas, Live: true,
			})
		}
	}
	return w
}

func (w *world) Read(context.Context) (gpu.Report, error) {
	r := gpu.Report{Drivers: w.snapshot.Drivers}
	for i := range w.snapshot.GPUs {
		g := &w.snapshot.GPUs[i]
		reading := *g.Reading
		reading.UUID, reading.At = g.UUID, w.now
		reading.Energy = new(gpu.Millijoules(w.now.Boot.Milliseconds() * 400))
		reading.ContextsKnown, reading.SamplesKnown = true, true
		reading.Sampled = gpu.Span{From: w.now.Boot - time.Second, To: w.now.Boot}
		for j, p := range g.Processes {
			reading.Contexts = append(reading.Contexts, gpu.Context{PID: p.ID.PID, MemoryUsed: p.MemoryUsed})
			reading.Samples = append(reading.Samples, gpu.Sample{PID: p.ID.PID, Span: reading.Sampled, SM: 0.01 * float64(j+1), Memory: 0.01})
		}
		r.Devices = append(r.Devices, g.Device)
		r.Readings = append(r.Readings, reading)
	}
	return r, nil
}

func (w *world) Process(pid uint32) (gpu.Process, bool) { p, ok := w.processes[pid]; return p, ok }

func (w *world) Owner(id gpu.ProcessID) gpu.Owner { return w.processes[id.PID].Owner }

func (w *world) Allocations() gpu.Allocations { return w.allocations }

func (w *world) SeesHost() bool { return true }

func (w *world) Units() map[gpu.Unit]gpu.UnitInfo { return nil }

func (w *world) Used([]gpu.Device, map[gpu.Owner][]string) {}

const ticks = 1000

func tick(ctx context.Context, s size) (each usage, err error) {
	cli.LimitFootprint(cli.ExporterGrowth)
	dir, err := os.MkdirTemp("/dev/shm", "gpuledger") // on a tmpfs, as in production
	if err != nil {
		return each, err
	}
	defer os.RemoveAll(dir)
	w := newWorld(s)
	now, log := func() gpu.Instant { return w.now }, slog.New(slog.DiscardHandler)
	sa := sampler.New(sampler.Config{
		Source: w, Owners: w, Mapper: w, Host: host.Host{ProcFS: "/proc", SysFS: "/sys"},
		NodeName: w.snapshot.Node.Name, StatePath: filepath.Join(dir, "state"),
		Ledger: ledger.Config{Tick: time.Second, Retention: 5 * time.Minute, MaxProcesses: 64, Explain: ledger.Explain{Period: time.Hour, Bytes: 1 << 20}},
		Now:    now, Log: log, Stages: stage.New(log, now),
	})
	run := func(n int) {
		for range n {
			sa.Tick(ctx)
			w.now.Wall, w.now.Boot = w.now.Wall.Add(time.Second), w.now.Boot+time.Second
		}
	}
	run(100)
	if accounts := processAccounts(sa.Latest()); accounts != s.gpus*s.containers*s.processes {
		return each, fmt.Errorf("%d processes have an account, need more", accounts)
	}
	for i := range rounds {
		before := used()
		run(ticks)
		if u := used().less(before).by(ticks); i == 0 || u.CPU < each.CPU {
			each = u
		}
	}
	return each, sa.Close()
}

func processAccounts(s *gpu.Snapshot) int {
	n := 0
	for i := range s.GPUs {
		for j := range s.GPUs[i].Book.Accounts {
			n += len(s.GPUs[i].Book.Accounts[j].Processes)
		}
	}
	return n
}
