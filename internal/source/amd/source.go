package amd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Vendor is the vendor name of the source's devices.
const Vendor = "AMD"

// Config is the configuration of a [Source].
type Config struct {
	// Sys and Proc are the directories where sysfs and procfs are mounted.
	Sys, Proc string
	// Clients makes the source also read DRM clients, which amdkfd does not list.
	Clients bool
	// Tick is the time between two Reads. It must be positive if Run is called.
	Tick time.Duration
	// Health enables [gpu.Reading.Health].
	Health bool
	// CallTimeout is the maximum time for which a Read waits for GPUs. It must be positive.
	CallTimeout time.Duration
	// Now may be called by several goroutines at the same time.
	Now gpu.Clock
	Log *slog.Logger
}

// Source reads the AMD GPUs of a node.
type Source struct {
	cfg    Config
	ticked chan struct{} // filled by each Read

	mu       sync.Mutex // permits one Read or Close at a time; guards the fields below
	slots    []*slot
	topology topology
	// platforms contains the names of the partitions' platform devices. It is read together with the topology.
	platforms map[string]string
	// files maps the name of a device node to its open files in all processes. It is read together with the topology.
	// unread is set after some of the files could not be listed.
	files  map[string][]clientFile
	unread bool
	closed bool
}

// New returns a source. It reads nothing before the first Read.
func New(cfg Config) *Source { return &Source{cfg: cfg, ticked: make(chan struct{}, 1)} }

var errLate = errors.New("call timed out")

// Read returns the current readings of all GPUs. It takes at most about [Config.CallTimeout]. It returns an error if
// the driver is not loaded or if no GPU responds. If a GPU does not respond, the report contains no reading of it. If
// the driver no longer lists a GPU, it is not among the report's devices.
func (s *Source) Read(ctx context.Context) (gpu.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return gpu.Report{}, errors.New("read amdgpu: closed")
	case ctx.Err() != nil:
		return gpu.Report{}, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	cards, err := scan(s.cfg.Sys)
	if err != nil {
		return gpu.Report{}, fmt.Errorf("read amdgpu: %w", err)
	}
	s.refresh()
	s.place(cards)
	report, err := s.visit(ctx)
	select {
	case s.ticked <- struct{}{}:
	default:
	}
	if err != nil {
		return gpu.Report{}, fmt.Errorf("read amdgpu: %w", err)
	}
	divideModules(&report)
	return report, nil
}

func (s *Source) refresh() {
	now := s.cfg.Now().Boot
	t := s.topology
	if t.nodes != nil && now-t.at < topologyAge && readText(s.cfg.Sys, "class/kfd/kfd/topology/generation_id") == t.generation {
		return
	}
	s.topology, s.platforms = readTopology(s.cfg.Sys), readPlatforms(s.cfg.Sys)
	s.topology.at = now
	if !s.cfg.Clients {
		return
	}
	var err error
	if s.files, err = listClientFiles(s.cfg.Proc); err != nil && !s.unread {
		s.unread = true
		s.cfg.Log.Warn("some DRM clients are unknown", "err", err)
	}
}

// place keeps the slot of a lost GPU, because a call may be in flight and the GPU may return.
func (s *Source) place(cards []card) {
	for _, x := range s.slots {
		x.present = false
	}
	position := 0
	for _, c := range cards {
		x := s.slotOf(c.address)
		if x == nil {
			x = &slot{}
			s.slots = append(s.slots, x)
		}
		x.card, x.present = c, true
		x.nodes, x.platforms = s.topology.nodes[c.address], s.platforms
		if s.cfg.Clients {
			x.files = slices.Concat(s.files["card"+strconv.Itoa(c.number)], s.files["renderD"+renderMinor(c.folder)])
		}
		x.position = position
		position += max(len(x.nodes), 1)
	}
}

func (s *Source) slotOf(address string) *slot {
	for _, x := range s.slots {
		if x.address == address {
			return x
		}
	}
	return nil
}

// The report contains the results that arrive before ctx ends.
func (s *Source) visit(ctx context.Context) (gpu.Report, error) {
	now := s.cfg.Now().Boot
	answers, present := 0, 0
	for _, x := range s.slots {
		if x.drain(now) {
			answers++
		}
	}
	for _, x := range s.slots {
		if x.present {
			x.begin(s.cfg)
		}
	}
	report := gpu.Report{Drivers: []gpu.Driver{s.driver()}}
	uuids := make(map[string]bool)
	for _, x := range s.slots {
		if x.take(ctx) {
			answers++
		}
		if now, err := x.condition(); now != x.health {
			x.health.Log(s.cfg.Log.With("gpu", x.device.UUID, "pci", x.address), now, err)
		}
		if !x.present {
			if x.device.UUID != "" {
				report.Lost = append(report.Lost, x.device.UUID)
			}
			continue
		}
		present++
		if x.device.UUID == "" && x.lane.Busy() {
			report.Opening = append(report.Opening, Vendor)
		}
		if x.device.UUID == "" || uuids[x.device.UUID] {
			continue
		}
		uuids[x.device.UUID] = true
		x.device.Position = new(x.position)
		report.Devices = append(report.Devices, x.device)
		if x.reading != nil {
			report.Readings = append(report.Readings, *x.reading)
		}
	}
	if present > 0 && answers == 0 {
		return gpu.Report{}, errLate
	}
	return report, nil
}

// A driver that is part of the kernel has the version of the kernel.
func (s *Source) driver() gpu.Driver {
	version := readText(s.cfg.Sys, "module/amdgpu/version")
	if version == "" {
		version = readText(s.cfg.Proc, "sys/kernel/osrelease")
	}
	return gpu.Driver{Vendor: Vendor, Name: "amdgpu", Version: version}
}

// Close prevents further reads. It does not wait for calls in flight, because they only keep a file open.
func (s *Source) Close(time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return nil
}
