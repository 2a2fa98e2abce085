package sampler_test

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/sampler"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	first  = "GPU-5d2f9a60-0000-4000-8000-000000000001"
	second = "GPU-5d2f9a60-0000-4000-8000-000000000002"
)

var train = gpu.Owner{Kind: gpu.OwnerPod, Scope: "ml", Name: "train-0", UID: "uid-train", Part: "main"}

// world implements the source, the owners and the mapper of a sampler. Each of its GPUs draws 100 W.
type world struct {
	t           *testing.T
	root        string
	now         time.Duration
	loaded      time.Duration // boot-clock time at which the energy counters started
	devices     []gpu.Device
	hung        map[string]bool
	processes   map[uint32]gpu.Process // running processes by PID
	owners      map[gpu.ProcessID]gpu.Owner
	contexts    map[string][]uint32
	samples     map[string][]gpu.Sample
	still       bool                 // set if the driver has no new samples
	mps         map[uint32]bool      // MPS clients by PID
	places      map[uint32]string    // MIG instances by PID
	instances   []gpu.InstanceSample // instance samples of every GPU in MIG mode
	utilization float64
	allocations gpu.Allocations
	xids        []gpu.DriverEvent
	fields      *gpu.FieldPage
	modulePower map[string]gpu.ModulePower
	partial     bool
	down        error
	report      *gpu.Report // Read returns this report if it is set
	private     bool        // set if the exporter has its own PID namespace
	max         int         // limit on the number of process accounts
	driver      string      // version of the driver
	units       map[gpu.Unit]gpu.UnitInfo
	used        map[gpu.Owner][]string
	idlePower   map[string]gpu.Watts
	log         *slog.Logger
	// The next tick reads kernelLog.
	kernelLog []gpu.KernelError
}

func newWorld(t *testing.T) *world {
	w := &world{
		max: 100, utilization: 1, t: t, root: t.TempDir(), now: time.Hour, hung: map[string]bool{},
		processes: map[uint32]gpu.Process{}, owners: map[gpu.ProcessID]gpu.Owner{}, contexts: map[string][]uint32{}, samples: map[string][]gpu.Sample{},
		allocations: gpu.Allocations{Known: true},
	}
	for i, uuid := range []string{first, second} {
		w.devices = append(w.devices, gpu.Device{
			UUID: uuid, Index: i, PCIBusID: []string{"00000000:1B:00.0", "00000000:43:00.0"}[i],
			Serial:       []string{"1320021000017", "1320021000034"}[i], // without a power limit, an unknown idle power is 0
			EnergySource: gpu.EnergyCounter, EnergyScope: gpu.ScopeGPU,
		})
	}
	w.write("proc/sys/kernel/random/boot_id", "boot-1\n")
	w.write("sys/class/dmi/id/product_serial", "EX0042\n")
	w.write("sys/bus/pci/devices/0000:1b:00.0/vendor", "0x10de\n")
	w.write("sys/bus/pci/devices/0000:1b:00.0/class", "0x030200\n")
	return w
}

func (w *world) write(name, content string) {
	path := filepath.Join(w.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) instant() gpu.Instant {
	return gpu.Instant{Wall: time.Unix(1_800_000_000, 0).Add(w.now), Boot: w.now}
}

func (w *world) Read(context.Context) (gpu.Report, error) {
	if w.down != nil {
		return gpu.Report{Fields: w.fields}, w.down
	}
	if w.report != nil {
		return *w.report, nil
	}
	r := gpu.Report{Drivers: []gpu.Driver{{Name: "nvml", Version: w.driver}}, Partial: w.partial, Devices: w.devices, Events: w.xids, Fields: w.fields}
	w.xids = nil
	for _, d := range w.devices {
		if w.hung[d.UUID] {
			continue
		}
		reading := gpu.Reading{
			UUID: d.UUID, At: w.instant(), Energy: new(gpu.Millijoules((w.now - w.loaded).Milliseconds() * 100)),
			Gauges: gpu.Gauges{gpu.Utilization: new(w.utilization)}, ModulePower: w.modulePower[d.UUID], ContextsKnown: true, Samples: w.samples[d.UUID], SamplesKnown: true,
		}
		for _, pid := range w.contexts[d.UUID] {
			reading.Contexts = append(reading.Contexts, gpu.Context{PID: pid, GPUInstance: w.places[pid], MPS: w.mps[pid], MemoryUsed: new(uint64(1 << 30))})
		}
		reading.Sampled = gpu.Span{From: reading.At.Boot - time.Second, To: reading.At.Boot}
		if w.still {
			reading.Sampled.To, reading.Samples = reading.Sampled.From, nil
		}
		for i := range reading.Samples {
			reading.Samples[i].Span = reading.Sampled
		}
		if d.Partitions != nil && w.instances != nil {
			reading.Instances, reading.InstancesKnown = slices.Clone(w.instances), true
			for i := range reading.Instances {
				reading.Instances[i].Span = reading.Sampled
			}
		}
		r.Readings = append(r.Readings, reading)
	}
	return r, nil
}

func (w *world) takeLog() []gpu.KernelError {
	taken := w.kernelLog
	w.kernelLog = nil
	return taken
}

func (w *world) Process(pid uint32) (gpu.Process, bool) {
	p, alive := w.processes[pid]
	return p, alive
}

func (w *world) Owner(id gpu.ProcessID) gpu.Owner { return w.owners[id] }

func (w *world) Units() map[gpu.Unit]gpu.UnitInfo { return w.units }

func (w *world) Used(_ []gpu.Device, by map[gpu.Owner][]string) { w.used = by }

// The allocations were requested now, unless a test sets another time.
func (w *world) Allocations() gpu.Allocations {
	a := w.allocations
	a.Requested = cmp.Or(a.Requested, w.now)
	return a
}

func (w *world) SeesHost() bool { return !w.private }

// runs starts a process of a container on a GPU.
func (w *world) runs(uuid string, pid uint32, c gpu.Owner) {
	w.processes[pid] = gpu.Process{
		ID: gpu.ProcessID{PID: pid, Start: 7}, Name: "python", Owner: c,
	}
	w.owners[w.processes[pid].ID] = w.processes[pid].Owner
	w.contexts[uuid] = append(w.contexts[uuid], pid)
}

func (w *world) sampler() *sampler.Sampler {
	log := cmp.Or(w.log, slog.New(slog.DiscardHandler))
	return sampler.New(sampler.Config{
		Source: w, Owners: w, Mapper: w, PCIClasses: []gpu.PCIClass{{Vendor: "0x10de", Class: "0x0302", Driver: "nvidia"}}, KernelLog: w.takeLog, NodeName: "node-1",
		Host:      host.Host{ProcFS: filepath.Join(w.root, "proc"), SysFS: filepath.Join(w.root, "sys")},
		StatePath: filepath.Join(w.root, "state"), IdlePower: w.idlePower,
		Ledger: ledger.Config{Tick: time.Second, Retention: 5 * time.Minute, MaxProcesses: w.max},
		Now:    w.instant, Log: log, Stages: stage.New(log, w.instant),
	})
}

// ticks runs n ticks, one per second, and returns the last snapshot. It checks that the books balance.
func (w *world) ticks(s *sampler.Sampler, n int) *gpu.Snapshot {
	w.t.Helper()
	for range n {
		s.Tick(w.t.Context())
		w.now += time.Second
	}
	snap := s.Latest()
	for _, g := range snap.GPUs {
		if g.Book != nil && g.Book.Energy != g.Book.Sum() {
			w.t.Fatalf("book of %s does not balance: %+v", g.UUID, g.Book)
		}
	}
	return snap
}

func stageOf(s *gpu.Snapshot, name stage.Name) gpu.Stage {
	for _, st := range s.Stages {
		if st.Name == string(name) {
			return st
		}
	}
	return gpu.Stage{}
}

var serve = gpu.Owner{Kind: gpu.OwnerPod, Scope: "web", Name: "serve-0", UID: "uid-serve", Part: "model"}

func (w *world) gives(uuid string, c gpu.Owner) {
	w.allocations.List = append(w.allocations.List, gpu.Allocation{
		Device: gpu.DeviceName{UUID: uuid}, Owner: c, Resource: "nvidia.com/gpu",
		Sharing: gpu.SharingExclusive, Replicas: 1, Live: true,
	})
}

func (w *world) restarted(s *sampler.Sampler) *sampler.Sampler {
	if err := s.Close(); err != nil {
		w.t.Fatal(err)
	}
	return w.sampler()
}

func halves() *gpu.Partitioning {
	return &gpu.Partitioning{Slices: 2, Instances: []gpu.Partition{
		{ID: "1", Slices: 1, Devices: []gpu.PartitionDevice{{UUID: "MIG-1"}}},
		{ID: "2", Slices: 1, Devices: []gpu.PartitionDevice{{UUID: "MIG-2"}}},
	}}
}
