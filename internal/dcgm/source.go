package dcgm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
)

// Config says which engine is read, and what.
type Config struct {
	Address Address
	// LibraryPath is the client library; empty means libdcgm.so.4 by the loader's
	// search path.
	LibraryPath string
	// CallTimeout is how long a Read waits. It must be positive.
	CallTimeout time.Duration
	// Tick is the usual time between two Reads.
	Tick time.Duration
	// Profiling lets the engine measure how busy MIG instances are. On GPUs before
	// Hopper nobody else can use the profiling counters then.
	Profiling bool
	// Fields are what the field page shows; nil for no page.
	Fields []Field
	Now    gpu.Clock
	Log    *slog.Logger
}

// Source reads the node's GPUs. It connects when it is first read, and again whenever
// the connection was lost. A process can have one Source at a time, since the binding
// has one connection.
type Source struct {
	cfg Config

	mu      sync.Mutex // one Read or Close at a time; guards what follows
	lane    lane.Lane[answer]
	session *session // nil while there is no connection; the lane's while that is busy
	closed  bool
	retry   backoff
	err     error     // why there is no connection
	skew    string    // the engine's version that was last told to be too old
	xids    []gpu.XID // of answers that came too late for their own Read
}

// answer is what one turn in the lane came to.
type answer struct {
	session *session
	report  gpu.Report
	err     error
}

// New returns a source that has not loaded the library yet.
func New(cfg Config) *Source {
	return &Source{cfg: cfg, err: errors.New("not tried yet")}
}

// Read returns what the engine knows now, connecting first if needed. It takes about
// [Config.CallTimeout] at most; of an answer that comes later only the errors of GPUs are
// kept, for the next one. An error means that the engine as a whole does not answer.
func (s *Source) Read(ctx context.Context) (gpu.Report, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return gpu.Report{}, errors.New("closed")
	}
	ctx, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	if s.lane.Busy() && s.lane.Late() {
		a, ok := s.lane.Poll()
		if !ok {
			return gpu.Report{}, errLate
		}
		for _, x := range a.report.XIDs {
			s.xids = x.Queue(s.xids)
		}
		_ = s.accept(a) // the next turn tells
	}
	now := s.cfg.Now().Boot
	if s.session == nil && now < s.retry.next {
		return gpu.Report{}, s.err
	}
	if !s.lane.Busy() {
		d := s.session
		s.lane.Begin(func() answer { return s.turn(d) })
	}
	a, ok := s.lane.Wait(ctx)
	if !ok {
		return gpu.Report{}, errLate
	}
	if err := s.accept(a); err != nil {
		return gpu.Report{}, err
	}
	a.report.XIDs = append(s.xids, a.report.XIDs...)
	s.xids = nil
	return a.report, nil
}

var errLate = errors.New("the host engine has not answered in time, still waiting")

// turn connects if need be, and reads. A connection that was lost is tried again at
// once, and then now and then. It runs in the lane.
func (s *Source) turn(d *session) answer {
	if d != nil {
		if a := s.try(d); a.session != nil {
			return a
		}
	}
	d, err := open(s.cfg)
	if err != nil {
		return answer{err: err}
	}
	return s.try(d)
}

// try reads, and leaves an engine of no use.
func (s *Source) try(d *session) answer {
	report, err := d.read()
	if err == nil {
		return answer{session: d, report: report}
	}
	err = fmt.Errorf("read host engine: %w", d.engine.explain(err))
	if !gone(err) && code(err) != codeNoFunction {
		return answer{session: d, err: err}
	}
	d.leave()
	return answer{err: err}
}

// accept takes in what a turn came to, and returns its error.
func (s *Source) accept(a answer) error {
	s.session = a.session
	if a.session == nil {
		s.err = a.err
		s.retry.fail(s.cfg.Now().Boot)
		return a.err
	}
	s.retry = backoff{}
	if e := a.session.engine; e.skewed() && s.skew != e.version {
		s.skew = e.version
		s.cfg.Log.Warn("libdcgm is newer than the host engine, which may not know its requests", "library", e.library, "engine", e.version)
	}
	return a.err
}

// A backoff spaces attempts to connect.
type backoff struct {
	pause, next time.Duration // next is on the boot clock
}

const (
	firstPause = time.Second
	lastPause  = 30 * time.Second
)

func (b *backoff) fail(now time.Duration) {
	b.pause = min(max(2*b.pause, firstPause), lastPause)
	b.next = now + b.pause
}

// Close waits for the call in flight, gives back what the engine holds for us, and
// disconnects. If the call does not return in time it leaves everything as it is: the
// engine cleans up when this process is gone. Nothing can be read afterwards.
func (s *Source) Close(wait time.Duration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	if s.lane.Busy() {
		a, ok := s.lane.Wait(ctx)
		if !ok {
			return errors.New("close host engine: a call has not returned, left as it is")
		}
		s.session = a.session
	}
	if s.session == nil {
		return nil
	}
	d := s.session
	s.session = nil
	err, ok := lane.Run(ctx, d.close)
	switch {
	case !ok:
		return errors.New("close host engine: it has not answered")
	case err != nil:
		return fmt.Errorf("close host engine: %w", err)
	}
	return nil
}
