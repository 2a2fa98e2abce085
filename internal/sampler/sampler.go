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

// Source reads the GPUs. An error means that the driver as a whole does not
// answer; a GPU that does not answer is missing from the report.
type Source interface {
	Read(ctx context.Context) (gpu.Report, error)
}

// Mapper knows whose a process is and which container holds which device.
type Mapper interface {
	// Process returns what is known of a process that is alive.
	Process(pid uint32) (gpu.Process, bool)
	// Owner returns the latest word on a process that Process returned before.
	Owner(id gpu.ProcessID) gpu.Owner
	Allocations() gpu.Allocations
}

// Config wires a sampler.
type Config struct {
	Source Source
	Mapper Mapper
	Host   host.Host
	// NodeName is the name of the Kubernetes node; may be empty.
	NodeName string
	// StatePath is the directory of the ledger's file.
	StatePath string
	Ledger    ledger.Config
	Now       gpu.Clock
	Log       *slog.Logger
	Stages    *stage.Set
}

// hostEvery is how often the machine itself is read again.
const hostEvery = 10 * time.Second

// Sampler owns the ledger. Tick and Run must not be called concurrently; Latest
// may be called by anyone.
type Sampler struct {
	cfg    Config
	roster roster
	people people
	store  store

	node    gpu.Node
	pciGPUs *int
	hostAt  gpu.Instant

	latest atomic.Pointer[gpu.Snapshot]
}

// New returns a sampler that has not looked at anything yet.
func New(cfg Config) *Sampler {
	return &Sampler{
		cfg:    cfg,
		roster: newRoster(),
		people: newPeople(cfg.Mapper),
		store:  newStore(cfg),
	}
}

// Latest returns the newest snapshot, nil before the first tick.
func (s *Sampler) Latest() *gpu.Snapshot { return s.latest.Load() }

// Run ticks until the context ends.
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

// Tick reads everything once and publishes the result. The snapshot becomes
// visible only after its state is saved, so that no counter can be lower after a
// crash than it was last shown.
func (s *Sampler) Tick(ctx context.Context) {
	began := s.cfg.Now()
	report, err := s.cfg.Source.Read(ctx)
	if ctx.Err() != nil {
		return
	}
	s.cfg.Stages.Observe(stage.Driver, began, err)
	now := s.cfg.Now()
	s.readHost(now)

	if s.store.acquire() {
		s.roster.restore(s.store.roster)
	}
	if err == nil {
		s.roster.update(report, now)
	}
	allocations := s.cfg.Mapper.Allocations()
	looks := make(map[string]look, len(report.Readings))
	for _, r := range report.Readings {
		looks[r.UUID] = s.people.look(r)
	}
	s.people.forget(now)

	s.charge(now, report, looks, allocations)
	s.store.save(s.roster.entries)
	s.latest.Store(s.snapshot(now, report, err, looks, allocations))
}

// charge passes the readings to the ledger, unless another exporter keeps the
// books of this node.
func (s *Sampler) charge(now gpu.Instant, report gpu.Report, looks map[string]look, allocations gpu.Allocations) {
	l := s.store.ledger
	if l == nil {
		return
	}
	for _, r := range report.Readings {
		l.Observe(observation(s.roster.device(r.UUID), r, looks[r.UUID], allocations))
	}
	l.Settle(now, s.cfg.Mapper.Owner)
}

// readHost reads the machine's identity and its PCI bus, now and then.
func (s *Sampler) readHost(now gpu.Instant) {
	if !s.hostAt.IsZero() && now.Sub(s.hostAt) < hostEvery {
		return
	}
	s.hostAt = now

	began := s.cfg.Now()
	node, err := s.cfg.Host.Node()
	s.cfg.Stages.Observe(stage.DMI, began, err)
	if err == nil || s.node.Name == "" {
		s.node = node
		s.node.Name = s.cfg.NodeName
	}

	began = s.cfg.Now()
	n, err := s.cfg.Host.PCIGPUs()
	s.cfg.Stages.Observe(stage.PCI, began, err)
	s.pciGPUs = nil
	if err == nil {
		s.pciGPUs = &n
	}
}

// snapshot puts together what a scrape will show.
func (s *Sampler) snapshot(now gpu.Instant, report gpu.Report, failed error, looks map[string]look, allocations gpu.Allocations) *gpu.Snapshot {
	snap := &gpu.Snapshot{At: now, Node: s.node, PCIGPUs: s.pciGPUs, Stages: s.cfg.Stages.Snapshot()}
	if failed == nil {
		snap.Driver = &report.Driver
		snap.DriverGPUs = new(len(report.Devices))
	}
	readings := make(map[string]*gpu.Reading, len(report.Readings))
	for i := range report.Readings {
		readings[report.Readings[i].UUID] = &report.Readings[i]
	}
	books := s.store.books(now)
	for uuid, e := range s.roster.entries {
		look := looks[uuid]
		snap.GPUs = append(snap.GPUs, gpu.GPU{
			Device:      e.Device,
			Present:     e.Present,
			Reading:     readings[uuid],
			LastReading: e.LastReading,
			XIDs:        e.XIDs.clone(),
			Holders:     holders(uuid, look.processes, allocations),
			Processes:   s.people.live(readings[uuid], look),
			Book:        books[uuid],
		})
	}
	slices.SortFunc(snap.GPUs, func(a, b gpu.GPU) int {
		return cmp.Or(cmp.Compare(a.PCIBusID, b.PCIBusID), cmp.Compare(a.UUID, b.UUID))
	})
	return snap
}

// Close gives the state directory free for another exporter. Run must have
// returned.
func (s *Sampler) Close() error { return s.store.close() }
