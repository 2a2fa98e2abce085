package nvml

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A slot is one of the driver's indices and the GPU behind it.
type slot struct {
	index int
	lane  lane[look]
	// board is nil while the GPU is unknown or lost. It belongs to the lane
	// while that is busy.
	board  *board
	device gpu.Device    // as of the last look
	again  time.Duration // boot clock; a slot without a board rests until then
	state  state
}

// look is the outcome of one call on a GPU.
type look struct {
	board   *board // nil if the GPU could not be identified, or is lost
	device  gpu.Device
	reading *gpu.Reading
	err     error
}

// look identifies the GPU at an index unless its board is known, and reads it.
// It runs in a lane.
func (d *session) look(index int, b *board) look {
	if b == nil {
		var err error
		if b, err = d.identify(index); err != nil {
			return look{err: err}
		}
	}
	reading, err := b.read()
	if is(err, gonvml.ERROR_GPU_IS_LOST) {
		return look{device: b.device, err: err}
	}
	return look{board: b, device: b.device, reading: reading, err: err}
}

// collect takes in the looks that came back before ctx ended, and reports the
// devices that are known and the readings there are.
func (d *session) collect(ctx context.Context, t *tally) gpu.Report {
	report := gpu.Report{Driver: d.driver}
	for _, s := range d.slots {
		l, ok := s.lane.take(ctx)
		if ok {
			t.add(l.err)
			s.accept(l, d.cfg.Now().Boot)
		}
		s.tell(d.cfg.Log, l.err)
		if s.board == nil {
			continue
		}
		report.Devices = append(report.Devices, s.device)
		if l.reading != nil {
			report.Readings = append(report.Readings, *l.reading)
		}
	}
	return report
}

func (s *slot) accept(l look, now time.Duration) {
	s.board = l.board
	if l.device.UUID != "" {
		s.device = l.device
	}
	if l.board == nil {
		s.again = now + identityRetry
	}
}

// state is what was last said in the log about a slot.
type state int

const (
	silent    state = iota // nothing yet
	answering              // the GPU is well
	late                   // it is quarantined
	missing                // it is lost, or was never identified
)

// tell logs when a slot's state changes.
func (s *slot) tell(log *slog.Logger, err error) {
	was := s.state
	switch {
	case s.lane.busy():
		s.state = late
	case s.board == nil:
		s.state = missing
	default:
		s.state = answering
	}
	if s.state == was {
		return
	}
	log = log.With("gpu", s.device.UUID, "index", s.index)
	switch s.state {
	case late:
		log.Warn("GPU is late, quarantined until its call returns")
	case missing:
		log.Warn("GPU is missing, will look for it again", "err", err)
	case answering:
		if was != silent {
			log.Info("GPU answers again")
		}
	}
}

// identify finds out which GPU is behind an index, and has its events
// delivered. It runs in a lane.
func (d *session) identify(index int) (*board, error) {
	q := &inquiry{lib: d.lib}
	handle, err := ask(q, "nvmlDeviceGetHandleByIndex", func() (device, ret) { return d.lib.DeviceGetHandleByIndex(index) })
	if err != nil {
		return nil, err
	}
	uuid, err := ask(q, "nvmlDeviceGetUUID", handle.GetUUID)
	if err != nil {
		return nil, err
	}
	if uuid == "" {
		return nil, fmt.Errorf("nvmlDeviceGetUUID: GPU %d has no UUID", index)
	}
	b := &board{lib: d.lib, handle: handle, now: d.cfg.Now, history: d.carried[uuid]}
	b.device = gpu.Device{UUID: uuid, Index: index, Vendor: "NVIDIA"}
	b.identify()
	d.subscribe(q, handle, uuid)
	return b, nil
}
