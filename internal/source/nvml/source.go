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

const vendor = "NVIDIA"

// PCIClasses match NVIDIA's GPUs on the PCI bus: the display controllers that the driver supports.
var PCIClasses = []gpu.PCIClass{
	{Vendor: "0x10de", Class: "0x0300", Driver: "nvidia"},
	{Vendor: "0x10de", Class: "0x0302", Driver: "nvidia"},
}

// Config is the configuration of a [Source].
type Config struct {
	// LibraryPath is the path of the driver's library. If it is empty, the loader finds
	// libnvidia-ml.so.1 in its search path.
	LibraryPath string
	// CallTimeout is the maximum time for which a Read waits for GPUs. It must be positive.
	CallTimeout time.Duration
	// Tick is the usual interval between two calls of Read. It may be 0.
	Tick time.Duration
	// SysFS is the directory where sysfs is mounted.
	SysFS string
	// ProcFS is the directory where procfs is mounted. If it is empty, the memory of the machine is not
	// read.
	ProcFS string
	// Health enables [gpu.Reading.Health].
	Health bool
	// Details enables [gpu.Reading.Details].
	Details bool
	// Profiling enables [gpu.Reading.Profile].
	Profiling bool
	// RestartAfter is the time after which a replaced driver ends [Source.Run]; 0 means never.
	RestartAfter time.Duration
	// Now may be called by several goroutines at the same time.
	Now gpu.Clock
	Log *slog.Logger
	// Stages receives the stage for XID events. The caller of Read records the stage for readings.
	Stages *stage.Set
}

// Source reads the NVIDIA GPUs of a node. It opens the driver at the first Read, and again after a
// driver reload.
type Source struct {
	cfg      Config
	nvml     gonvml.Interface
	gate     gate
	memories *memories

	mu      sync.Mutex // permits one Read or Close at a time; guards the fields below
	opening lane.Lane[opened]
	session *session // last session, if it is not yet shut down
	closed  bool

	replacement replacement
	release     *Release     // nil if there is no release
	known       []gpu.Device // devices in the last report

	xidsMu sync.Mutex
	xids   []gpu.DriverEvent // events since the last report
}

type opened struct {
	session *session
	err     error
}

// New returns a source. It does not use the driver before the first Read.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, nvml: gonvml.New(gonvml.WithLibraryPath(cfg.LibraryPath)), memories: newMemories()}
}

// Read returns the current readings of all GPUs, and opens the driver if necessary. It takes at most
// about [Config.CallTimeout]. It returns an error if the driver as a whole does not respond. If a
// single GPU does not respond, the report contains no reading of this GPU. If this GPU is lost, it
// is also missing from the report's devices.
func (s *Source) Read(ctx context.Context) (gpu.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	report, err := s.read(ctx)
	if err = s.replacement.check(s, err); err != nil {
		return gpu.Report{}, err
	}
	s.known = report.Devices
	report.Events = s.takeXIDs()
	return report, nil
}

func (s *Source) read(ctx context.Context) (gpu.Report, error) {
	d, err := s.open(ctx)
	if err != nil {
		return gpu.Report{}, fmt.Errorf("open driver: %w", err)
	}
	report, err := d.read(ctx)
	if err != nil {
		return gpu.Report{}, fmt.Errorf("read driver: %w", err)
	}
	return report, nil
}

// If there is no open session, or if the driver was reloaded, open starts a new session in a lane. If this takes longer
// than the current Read, the next Read continues to wait.
//
// NVML counts initialisations. It releases an unloaded driver only after as many shutdowns. Therefore a new session
// cannot start before the old session is shut down. A session must not be shut down while a call is stuck.
func (s *Source) open(ctx context.Context) (*session, error) {
	if s.closed {
		return nil, errors.New("closed")
	}
	release := s.inForce()
	if d := s.gate.session(); d != nil && !d.reloaded && d.release == release {
		return d, nil
	}
	if release.all() && s.closedDriver() {
		return nil, *release
	}
	if !s.opening.Busy() {
		if !s.gate.drain(ctx) {
			return nil, errors.New("waiting until a stuck driver call returns")
		}
		old := s.session
		s.session = nil
		s.opening.Begin(func() opened { return s.reopen(old, release) })
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

// reopen opens no session if the whole driver is released. No call may be in flight in the old session. reopen runs in
// a lane.
func (s *Source) reopen(old *session, release *Release) opened {
	if old != nil {
		if err := old.close(); err != nil {
			s.cfg.Log.Debug("shut down driver", "err", err)
		}
	}
	if release.all() {
		return opened{err: *release}
	}
	lib, err := initialise(s.nvml, s.cfg.LibraryPath)
	s.replacement.loaded(s)
	if err != nil {
		return opened{err: err}
	}
	return opened{session: newSession(s.cfg, &s.gate, lib, s.memories, release)}
}

// Close prevents further calls, waits for calls in flight and shuts the driver down. If a call does
// not return in time, the driver stays open, because a shutdown during a call would crash the
// process. The source cannot be read afterwards.
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
			return errors.New("driver not shut down: the call that opens the driver has not returned")
		}
	}
	if !s.gate.drain(ctx) {
		return errors.New("driver not shut down: a driver call has not returned")
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
