package sampler

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/host"
	"github.com/gpuledger/gpuledger/internal/ledger"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// Source reads the GPUs. If no driver responds, Read returns an error, and the report contains at most a field page.
// The report contains no reading of a GPU that does not respond.
type Source interface {
	Read(ctx context.Context) (gpu.Report, error)
}

// Owners finds the owners of processes.
type Owners interface {
	// Process returns false if the process is not running.
	Process(pid uint32) (gpu.Process, bool)
	// Owner returns the current owner of a process that Process returned earlier.
	Owner(id gpu.ProcessID) gpu.Owner
}

// Mapper returns the devices that containers hold.
type Mapper interface {
	// Allocations uses the device names of the allocator.
	Allocations() gpu.Allocations
	// SeesHost reports whether the driver's PIDs are the PIDs in the exporter's /proc.
	SeesHost() bool
	// Units describes the known units. The returned map must not change.
	Units() map[gpu.Unit]gpu.UnitInfo
	// Used receives the UUIDs of the GPUs that each owner uses, because files that declare GPUs may name other owners.
	Used(devices []gpu.Device, by map[gpu.Owner][]string)
}

// Config contains the dependencies and settings of a sampler.
type Config struct {
	Source Source
	Owners Owners
	Mapper Mapper
	Host   host.Host
	// KernelLog returns the errors that the kernel logged since the last call. It may be nil.
	KernelLog func() []gpu.KernelError
	// PCIClasses matches the GPUs on the PCI bus that the source can read.
	PCIClasses []gpu.PCIClass
	// NodeName is the name of the Kubernetes node. It may be empty.
	NodeName string
	// StatePath is the directory of the ledger's state file.
	StatePath string
	// IdlePower is the configured idle power by model.
	IdlePower map[string]gpu.Watts
	Ledger    ledger.Config
	Now       gpu.Clock
	Log       *slog.Logger
	Stages    *stage.Set
}

// hostEvery is the interval between two readings of the machine.
const hostEvery = 10 * time.Second

// Sampler owns the ledger. Tick and Run must not be called concurrently, but Latest may be called at any time.
type Sampler struct {
	cfg       Config
	gpus      gpuList
	modules   modules
	histories histories
	processes processes
	store     store

	node    gpu.Node
	pciGPUs *int
	hostAt  gpu.Instant // time of the last reading of node and pciGPUs

	// given contains the last known allocations by UUID. requested is the boot-clock time of the request for them.
	given     map[string][]gpu.Allocation
	requested time.Duration
	seen      ownersSeen
	// declared contains, by UUID, the allocations that the last tick derived from files or from use.
	declared map[string][]gpu.Allocation

	latest atomic.Pointer[gpu.Snapshot]
}

// New returns a sampler. It reads nothing before the first tick.
func New(cfg Config) *Sampler {
	return &Sampler{
		cfg:       cfg,
		gpus:      newGPUList(cfg.Ledger.Retention),
		modules:   modules{shares: make(map[string]float64)},
		histories: make(histories),
		processes: newProcesses(cfg.Owners),
		seen:      make(ownersSeen),
		declared:  make(map[string][]gpu.Allocation),
		store:     store{cfg: cfg, switches: make(nvSwitches)},
		node:      gpu.Node{Name: cfg.NodeName},
	}
}

// Latest returns the newest snapshot, or nil before the first tick.
func (s *Sampler) Latest() *gpu.Snapshot { return s.latest.Load() }

// Run calls Tick periodically until the context ends.
func (s *Sampler) Run(ctx context.Context) error {
	ticker := time.NewTicker(s.cfg.Ledger.Tick)
	defer ticker.Stop()
	for {
		s.Tick(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Tick reads all sources once and publishes the result. It publishes the snapshot only after the state was saved, so no
// counter is lower after a crash than its last published value.
func (s *Sampler) Tick(ctx context.Context) {
	report, err := s.cfg.Source.Read(ctx)
	if ctx.Err() != nil {
		return
	}
	now := s.cfg.Now()
	s.readHost(now)

	s.gpus.restore(s.store.acquire(ctx))
	s.gpus.update(report, now)
	if err == nil {
		s.modules.divide(&s.gpus, report.Readings)
		s.histories.update(report.Readings, now)
	}
	s.gpus.addEvents(s.store.countable(report.Events))
	if s.cfg.KernelLog != nil && s.store.ledger != nil { // the state file may already contain the errors, so it must be read first
		s.gpus.addKernel(s.store.switches.add(s.cfg.KernelLog()))
	}
	if !s.cfg.Mapper.SeesHost() {
		blind(report.Readings)
	}
	allocations := s.cfg.Mapper.Allocations()
	v := view{
		now: now, report: report, down: err != nil,
		allocations: byGPU(s.gpus.devices().lookUp(allocations.List)), allocationsKnown: allocations.Known, alive: allocations.Alive,
		processes: make(map[string]processUsage, len(report.Readings)),
	}
	if v.required = allocations.Known && !allocations.Optional; allocations.Known {
		s.given, s.requested = v.allocations, allocations.Requested
	}
	for _, r := range report.Readings {
		v.processes[r.UUID] = s.processes.resolve(r, s.holdsGPU)
	}
	s.processes.forget(now)
	s.seen.update(v.processes, now.Boot)
	s.correct(v)

	s.charge(v)
	books := s.store.books()
	for uuid, b := range books.Books {
		s.gpus.reset(uuid, b.Resets, now)
	}
	v.units = s.store.jobs.complete(s.cfg.Mapper.Units(), books)
	s.store.save(ctx, s.gpus.entries, v, books)
	if ctx.Err() != nil {
		return // it is unknown whether the state was saved
	}
	s.latest.Store(s.snapshot(v, books))
}

// blind removes the driver's process lists if the exporter has its own PID namespace. In such a namespace, the lists
// omit the processes of other pods. A listed process would then seem to be alone on its GPU.
func blind(readings []gpu.Reading) {
	for i := range readings {
		r := &readings[i]
		r.Contexts, r.ContextsKnown, r.Samples, r.SamplesKnown = nil, false, nil, false
	}
}

type view struct {
	now              gpu.Instant
	report           gpu.Report
	down             bool                        // set if no driver responds
	allocations      map[string][]gpu.Allocation // allocations by UUID, as returned by [byGPU]
	allocationsKnown bool
	alive            map[string]bool         // UIDs of live groups while the allocations are unknown
	required         bool                    // set if the allocations are known and an owner needs an allocation to use a GPU
	processes        map[string]processUsage // processes by UUID
	units            map[gpu.Unit]gpu.UnitInfo
}

// charge does nothing while another exporter on this node charges energy.
func (s *Sampler) charge(v view) {
	l := s.store.ledger
	if l == nil {
		return
	}
	for _, r := range v.report.Readings {
		d := s.gpus.device(r.UUID)
		o := observation(d, r, v)
		o.ConfiguredIdlePower, o.StoredIdlePower = s.cfg.IdlePower[d.Model], s.store.idle.idlePower(kindOf(d, v.report.Drivers))
		l.Observe(o)
	}
	l.Settle(v.now, s.cfg.Owners.Owner)
	l.Tidy(func(uuid string) (known, shown bool) {
		e, known := s.gpus.entries[uuid]
		return known, known && s.gpus.showsBook(e, v.now)
	})
}

func (s *Sampler) readHost(now gpu.Instant) {
	if !s.hostAt.IsZero() && now.Sub(s.hostAt) < hostEvery {
		return
	}
	s.hostAt = now

	began := s.cfg.Now()
	node, err := s.cfg.Host.Node()
	s.cfg.Stages.Observe(stage.DMI, began, err)
	if err == nil {
		s.node = node
		s.node.Name = s.cfg.NodeName
	}

	began = s.cfg.Now()
	n, err := s.cfg.Host.CountPCI(s.cfg.PCIClasses)
	s.cfg.Stages.Observe(stage.PCI, began, err)
	s.pciGPUs = nil
	if err == nil {
		s.pciGPUs = &n
	}
}

func (s *Sampler) snapshot(v view, books ledger.State) *gpu.Snapshot {
	snap := &gpu.Snapshot{At: v.now, Node: s.node, PCIGPUs: s.pciGPUs, Stages: s.cfg.Stages.Snapshot(), Fields: v.report.Fields}
	snap.Drivers, snap.Units = v.report.Drivers, v.units
	if !v.down && !v.report.Partial {
		snap.DriverGPUs = new(len(v.report.Devices) + s.gpus.countOpening(v.report))
	}
	for uuid := range s.gpus.entries {
		snap.GPUs = append(snap.GPUs, s.gpu(uuid, v))
	}
	slices.SortFunc(snap.GPUs, func(a, b gpu.GPU) int {
		return cmp.Or(cmp.Compare(a.PCIBusID, b.PCIBusID), cmp.Compare(a.UUID, b.UUID))
	})
	s.keepBooks(snap, books)
	for i := range snap.GPUs {
		if g := &snap.GPUs[i]; g.Reading != nil && len(g.Totals) > 0 {
			g.Reading.Health = slices.Clone(g.Reading.Health)
			for _, total := range g.Totals {
				if total.Metric == gpu.NVLinkErrors { // for memory errors, AMD's driver already reports sums since it was loaded
					g.Reading.Health = gpu.AddHealth(g.Reading.Health, total)
				}
			}
		}
	}
	return snap
}

func (s *Sampler) gpu(uuid string, v view) gpu.GPU {
	e, who := s.gpus.entries[uuid], v.processes[uuid]
	use := s.usage(uuid, v)
	g := gpu.GPU{
		Device: e.Device, Present: e.Present, Renamed: e.Renamed, LastReading: e.LastReading, Silent: e.Silent, Events: e.Events.Clone(), Holders: use.holders(),
	}
	i := slices.IndexFunc(v.report.Readings, func(r gpu.Reading) bool { return r.UUID == uuid })
	if i < 0 {
		return g
	}
	g.Reading, g.Recent = new(v.report.Readings[i]), s.histories.recent(uuid)
	g.Totals, g.TotalsSince = e.Counts.Totals(g.Reading.Counters), e.CountsSince
	g.Processes = s.processes.liveProcesses(g.Reading, who)
	g.Reading.Contexts, g.Reading.Samples, g.Reading.Instances = nil, nil, nil // so that the snapshot does not keep these lists in memory
	g.HoldersKnown = g.Reading.ContextsKnown && v.allocationsKnown
	if g.Reading.ContextsKnown && v.required {
		g.Strays, g.Unused = new(use.strays()), new(use.unused())
	}
	return g
}

// keepBooks adds the books to a snapshot. It adds no books until the state file is read, and while another exporter on
// this node charges energy.
//
// If the state in the file may be outdated, a restart would continue from older books. keepBooks then repeats the books
// and errors of the last snapshot.
func (s *Sampler) keepBooks(snap *gpu.Snapshot, books ledger.State) {
	last := s.latest.Load()
	switch {
	case s.store.ledger == nil:
	case !s.store.stale:
		snap.NVSwitches = s.store.switches.list()
	case last != nil:
		snap.NVSwitches = last.NVSwitches
	}
	for i := range snap.GPUs {
		g := &snap.GPUs[i]
		if s.store.ledger == nil {
			g.Events, g.Totals, g.ReportsEvents = gpu.DriverEvents{}, nil, false
			continue
		}
		if s.store.stale {
			old := shownOf(last, g.UUID)
			if old == nil {
				old = new(gpu.GPU)
			}
			g.Book, g.Intervals, g.Events, g.Totals, g.ReportsEvents = old.Book, old.Intervals, old.Events, old.Totals, old.ReportsEvents
			continue
		}
		if b := books.Books[g.UUID]; b != nil && s.gpus.showsBook(s.gpus.entries[g.UUID], snap.At) {
			g.Book, g.Intervals = &b.Book, b.Intervals
		}
	}
}

// shownOf returns nil if the last snapshot does not contain the GPU.
func shownOf(last *gpu.Snapshot, uuid string) *gpu.GPU {
	if last == nil {
		return nil
	}
	i := slices.IndexFunc(last.GPUs, func(old gpu.GPU) bool { return old.UUID == uuid })
	if i < 0 {
		return nil
	}
	return &last.GPUs[i]
}

// Close releases the state directory for another exporter. Run must have returned.
func (s *Sampler) Close() error { return s.store.close() }
