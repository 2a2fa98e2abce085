package nvml

import (
	"context"
	"errors"
	"fmt"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/stage"
)

const (
	// eventTimeout is how long one call waits for an event. Shutting the driver
	// down has to wait for it, and on SIGTERM there is half a second for that.
	eventTimeout = 250 * time.Millisecond
	// eventRetry is the pause after a failure, and while there is no driver.
	eventRetry = time.Second
)

// errClosed is why there are no events while the driver is closed.
var errClosed = errors.New("the driver is not open")

// event is the outcome of one wait.
type event struct {
	session *session
	data    gonvml.EventData
	err     error
}

// subscribe has a GPU's XID errors delivered. A GPU that refuses goes without.
// It runs in the GPU's lane.
func (d *session) subscribe(q *inquiry, h device, uuid string) {
	if d.events == nil {
		return
	}
	types, err := ask(q, "nvmlDeviceGetSupportedEventTypes", h.GetSupportedEventTypes)
	if err == nil && types&gonvml.EventTypeXidCriticalError != 0 {
		d.uuids.Store(h, uuid)
		_, err = ask(q, "nvmlDeviceRegisterEvents", func() (struct{}, ret) {
			return struct{}{}, h.RegisterEvents(gonvml.EventTypeXidCriticalError, d.events)
		})
	}
	if err != nil {
		d.cfg.Log.Debug("GPU gives no events", "gpu", uuid, "err", err)
	}
}

// Run collects the driver's XID errors for the next report until ctx ends. It
// does not open the driver but waits until [Source.Read] has, as it does when
// the driver is reloaded.
func (s *Source) Run(ctx context.Context) error {
	var waiting lane[event]
	seen := false
	for ctx.Err() == nil {
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

// awaitEvent waits once for an event of a session. No event is no failure.
func (s *Source) awaitEvent(ctx context.Context, d *session, waiting *lane[event]) error {
	if d.events == nil {
		return fmt.Errorf("create event set: %w", d.eventsErr)
	}
	call(d, waiting, d.waitEvent)
	if !waiting.busy() {
		return errClosed // in the meantime
	}
	e, ok := waiting.wait(ctx)
	switch {
	case !ok, is(e.err, gonvml.ERROR_TIMEOUT):
		return nil
	case e.err != nil:
		return e.err
	}
	if uuid, ok := e.session.uuids.Load(e.data.Device); ok && e.data.EventType == gonvml.EventTypeXidCriticalError {
		s.putXID(gpu.XID{UUID: uuid.(string), Code: e.data.EventData, At: s.cfg.Now().Wall})
	}
	return nil
}

func (d *session) waitEvent() event {
	data, err := ask(&inquiry{lib: d.lib}, "nvmlEventSetWait", func() (gonvml.EventData, ret) {
		return d.events.Wait(uint32(eventTimeout.Milliseconds()))
	})
	return event{d, data, err}
}

func (s *Source) putXID(x gpu.XID) {
	s.xidsMu.Lock()
	defer s.xidsMu.Unlock()
	s.xids = append(s.xids, x)
}

func (s *Source) takeXIDs() []gpu.XID {
	s.xidsMu.Lock()
	defer s.xidsMu.Unlock()
	xids := s.xids
	s.xids = nil
	return xids
}

// rest returns after a pause, or as soon as ctx ends.
func rest(ctx context.Context, pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
