package nvml

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	// eventInterval is the interval between two calls while there are no events. The calls do not wait in the driver,
	// for two reasons. A thread that waits in the driver keeps Go's monitor thread awake. In measurements, the monitor
	// thread used a third of the processor time of an idle exporter. A waiting call would also delay the shutdown of
	// the driver.
	eventInterval = 250 * time.Millisecond
	// eventRetry is the pause after a failure, and while the driver is not open.
	eventRetry = time.Second
)

var errClosed = errors.New("driver is not open")

type event struct {
	session *session
	data    gonvml.EventData
	err     error
}

type eventSet struct {
	gonvml.EventSet
	mu      sync.RWMutex // locked for reading while GPUs are being registered
	retired bool
}

func (e *eventSet) register(h device) (struct{}, ret) {
	e.mu.RLock()
	defer e.mu.RUnlock()
	if e.retired {
		return struct{}{}, gonvml.ERROR_UNKNOWN
	}
	return struct{}{}, h.RegisterEvents(gonvml.EventTypeXidCriticalError, e.EventSet)
}

func (e *eventSet) retire() bool {
	if !e.mu.TryLock() { // a registration is in progress and may hang
		return false
	}
	defer e.mu.Unlock()
	e.retired = true
	return true
}

// renewEvents must not run during a wait for events. Therefore it runs when the session starts and between two waits.
func (d *session) renewEvents() error {
	set, err := query(&inquiry{lib: d.lib}, "nvmlEventSetCreate", d.lib.EventSetCreate)
	if err != nil {
		d.freeEvents(d.events.Swap(nil))
		return err
	}
	d.freeEvents(d.events.Swap(&eventSet{EventSet: set}))
	return nil
}

// If a call still uses the set, freeEvents does not free it. The driver frees the set at its shutdown.
func (d *session) freeEvents(set *eventSet) {
	if set != nil && set.retire() && d.lib.has("nvmlEventSetFree") {
		_ = set.Free()
	}
}

// subscribe registers a GPU for XID errors. After a failure it is called again later. It runs in the GPU's lane.
func (d *session) subscribe(g *gpuReader) {
	set := d.events.Load()
	if g.events == set && g.device.ReportsEvents {
		return
	}
	g.events, g.device.ReportsEvents = set, false
	if set == nil {
		return
	}
	q := &inquiry{lib: d.lib}
	types, err := query(q, "nvmlDeviceGetSupportedEventTypes", g.handle.GetSupportedEventTypes)
	if err == nil && types&gonvml.EventTypeXidCriticalError != 0 {
		d.uuids.Store(g.handle, g.device.UUID)
		_, err = query(q, "nvmlDeviceRegisterEvents", func() (struct{}, ret) { return set.register(g.handle) })
		g.device.ReportsEvents = err == nil
	}
	if err != nil {
		d.cfg.Log.Debug("cannot register GPU for events", "gpu", g.device.UUID, "err", err)
	}
	if q.retryable {
		g.incomplete, g.again = true, g.now().Boot+identityRetry
	}
}

// Run collects the driver's XID errors for the next report until ctx ends. Run does not open the driver. It waits until
// [Source.Read] has opened the driver, also after a driver reload. It returns a [Replaced] if the driver can be read
// only after a restart of the program.
func (s *Source) Run(ctx context.Context) error {
	var waiting lane.Lane[event]
	seen := false
	for ctx.Err() == nil {
		if r := s.replacement.due(); r != nil {
			return *r
		}
		began := s.cfg.Now()
		d := s.gate.session()
		err := errClosed
		if d != nil {
			seen = true
			err = s.awaitEvent(ctx, d, &waiting)
		}
		if seen && ctx.Err() == nil {
			s.cfg.Stages.Observe(stage.XID, began, err)
		}
		if err != nil {
			rest(ctx, eventRetry)
		}
	}
	return nil
}

// If there is no event, awaitEvent returns nil after eventInterval.
func (s *Source) awaitEvent(ctx context.Context, d *session, waiting *lane.Lane[event]) error {
	pace := time.After(eventInterval)
	call(d, waiting, d.waitEvent)
	if !waiting.Busy() {
		return errClosed // the session was closed in the meantime
	}
	due, cancel := context.WithTimeout(ctx, s.cfg.CallTimeout)
	defer cancel()
	e, ok := waiting.Wait(due)
	switch {
	case !ok:
		return fmt.Errorf("nvmlEventSetWait: %w", errLate)
	case hasCode(e.err, gonvml.ERROR_TIMEOUT):
		select {
		case <-pace:
		case <-ctx.Done():
		}
		return nil
	case e.err != nil:
		return e.err
	}
	if uuid, ok := e.session.uuids.Load(e.data.Device); ok && e.data.EventType == gonvml.EventTypeXidCriticalError {
		s.putXID(gpu.DriverEvent{UUID: uuid.(string), Code: e.data.EventData, At: s.cfg.Now().Wall})
	}
	return nil
}

// After a failed call, waitEvent replaces the event set. The driver rejects a whole set if one of its GPUs is lost.
// Every other GPU is registered with the new set when the GPU is next read. waitEvent runs in a lane.
func (d *session) waitEvent() event {
	if d.events.Load() == nil {
		if err := d.renewEvents(); err != nil {
			return event{session: d, err: err}
		}
	}
	data, err := query(&inquiry{lib: d.lib}, "nvmlEventSetWait", func() (gonvml.EventData, ret) {
		return d.events.Load().Wait(0) // ms
	})
	if err != nil && !hasCode(err, gonvml.ERROR_TIMEOUT) {
		_ = d.renewEvents() // the next wait returns the error
	}
	return event{d, data, err}
}

func (s *Source) putXID(x gpu.DriverEvent) {
	s.xidsMu.Lock()
	defer s.xidsMu.Unlock()
	s.xids = x.Queue(s.xids)
}

func (s *Source) takeXIDs() []gpu.DriverEvent {
	s.xidsMu.Lock()
	defer s.xidsMu.Unlock()
	xids := s.xids
	s.xids = nil
	return xids
}

func rest(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
