package nvml

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// PCIClasses are NVIDIA's GPUs on the PCI bus: the display controllers that the driver serves.
var PCIClasses = []gpu.PCIClass{{Vendor: "0x10de", Class: "0x0300"}, {Vendor: "0x10de", Class: "0x0302"}}

// Config says how the driver is read.
type Config struct {
	// LibraryPath is the driver's library; empty means libnvidia-ml.so.1 by the
	// loader's search path.
	LibraryPath string
	// CallTimeout is how long a Read waits before it goes on without those who
	// did not answer. It must be positive.
	CallTimeout time.Duration
	// Now is called from several goroutines.
	Now gpu.Clock
	Log *slog.Logger
	// Stages is told how waiting for XID events goes. How reading goes is the
	// caller's to tell.
	Stages *stage.Set
}

// Source reads the node's GPUs. It opens the driver when it is first read, and
// again whenever the driver was reloaded.
type Source struct {
	cfg      Config
	nvml     gonvml.Interface
	gate     gate
	memories *memories

	mu      sync.Mutex // one Read or Close at a time; guards what follows
	opening lane.Lane[opened]
	session *session // the last one initialised and not yet shut down
	closed  bool

	xidsMu sync.Mutex
	xids   []gpu.DriverEvent // since the last report
}

// opened is the outcome of an attempt to open the driver.
type opened struct {
	session *session
	err     error
}

// New returns a source that has not touched the driver yet.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, nvml: gonvml.New(gonvml.WithLibraryPath(cfg.LibraryPath)), memories: newMemories()}
}

// Read returns what every GPU says now, opening the driver first if needed. It
// takes about [Config.CallTimeout] at most. An error means that the driver as a
// whole does not answer; a GPU that does not is missing from the readings, or
// from the devices if it is lost.
func (s *Source) Read(ctx context.Context) (gpu.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	d, err := s.open(ctx)
	if err != nil {
		return gpu.Report{}, fmt.Errorf("open driver: %w", err)
	}
	report, err := d.read(ctx)
	if err != nil {
		return gpu.Report{}, fmt.Errorf("read driver: %w", err)
	}
	report.Events = s.takeXIDs()
	return report, nil
}

// open returns the open session. If there is none, or the driver reloaded it, it
// opens one; an attempt that takes longer than this Read is awaited by the next.
//
// NVML counts its initialisations, and only the shutdown that undoes the last of
// them lets go of a driver that was unloaded. So a new session cannot begin over
// an old one, which in turn must not be shut down under a call that is stuck.
func (s *Source) open(ctx context.Context) (*session, error) {
	if s.closed {
		return nil, errors.New("closed")
	}
	if d := s.gate.session(); d != nil && !d.reloaded {
		return d, nil
	}
	if !s.opening.Busy() {
		if !s.gate.drain(ctx) {
			return nil, errors.New("waiting for a stuck call before reopening the driver")
		}
		old := s.session
		s.session = nil
		s.opening.Begin(func() opened { return s.reopen(old) })
	}
	o, ok := s.opening.Take(ctx)
	switch {
	case !ok:
		return nil, fmt.Errorf("timed out after %v, still waiting for the call to return", s.cfg.CallTimeout)
	case o.err != nil:
		return nil, o.err
	}
	s.session = o.session
	s.memories.reopened()
	s.gate.admit(o.session)
	return o.session, nil
}

// reopen shuts an old, idle session down and opens a new one. It runs in a lane.
func (s *Source) reopen(old *session) opened {
	if old != nil {
		if err := old.close(); err != nil {
			s.cfg.Log.Debug("shut down driver", "err", err)
		}
	}
	lib, err := initialise(s.nvml, s.cfg.LibraryPath)
	if err != nil {
		return opened{err: err}
	}
	return opened{session: newSession(s.cfg, &s.gate, lib, s.memories)}
}

// Close lets no further call begin, waits for those in flight and shuts the
// driver down. If a call does not return in time it leaves the driver as it is:
// to shut it down under a call is to crash. Nothing can be read afterwards.
func (s *Source) Close(wait time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if s.opening.Busy() {
		if o, ok := s.opening.Wait(ctx); ok {
			s.session = o.session
		} else {
			return errors.New("close driver: opening it is still in flight, driver not shut down")
		}
	}
	if !s.gate.drain(ctx) {
		return errors.New("close driver: a call is still in flight, driver not shut down")
	}
	if s.session == nil {
		return nil
	}
	d := s.session
	s.session = nil
	err, ok := lane.Run(ctx, d.close)
	switch {
	case !ok:
		return errors.New("close driver: nvmlShutdown timed out")
	case err != nil:
		return fmt.Errorf("close driver: %w", err)
	}
	return nil
}
