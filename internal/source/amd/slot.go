package amd

import (
	"context"
	"errors"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/source"
)

// A slot is a place on the PCI bus and the GPU in it.
type slot struct {
	card
	present   bool
	position  int // see [gpu.Device.Position]
	nodes     []node
	platforms map[string]string
	files     []clientFile

	lane lane.Lane[look]
	// moment reads the use of the GPU between two readings. summed is set if gpu_metrics contained sums of activity at
	// the last reading.
	moment lane.Lane[moment]
	summed bool
	// reader is nil before the first call. While the lane is busy, the reader belongs to the lane.
	reader  *reader
	device  gpu.Device   // device at the last call; it has no UUID before the first call
	reading *gpu.Reading // reading of this tick, or nil if there is none
	err     error        // error of the last call
	health  source.Health
}

type look struct {
	device  gpu.Device
	reader  *reader
	began   time.Duration // boot clock
	summed  bool
	reading *gpu.Reading
	err     error
}

// drain accepts a result that arrived after its Read had ended.
func (x *slot) drain(now time.Duration) bool {
	x.reading = nil
	if !x.lane.Busy() {
		return false
	}
	l, ok := x.lane.Poll()
	if !ok {
		return false
	}
	if now-l.began > source.MaxLate {
		l.reading = nil
	}
	x.accept(l)
	return true
}

func (x *slot) begin(cfg Config) {
	if x.lane.Busy() {
		return
	}
	if x.reader == nil || x.reader.card != x.card {
		old := x.reader
		x.reader = &reader{cfg: cfg, card: x.card}
		if old != nil { // the slot may contain the same GPU with another card number
			x.reader.former = old
		}
	}
	r := x.reader
	r.nodes, r.platforms, r.files, r.moment = x.nodes, x.platforms, x.files, x.takeMoment()
	x.lane.Begin(r.look)
}

func (x *slot) take(ctx context.Context) bool {
	if x.lane.Late() {
		return false
	}
	early := x.reading
	l, ok := x.lane.Take(ctx)
	if !ok {
		return false
	}
	x.accept(l)
	if early == nil || x.reading == nil || early.UUID == x.reading.UUID {
		x.reading = source.Latest(early, x.reading)
	}
	return true
}

func (x *slot) accept(l look) {
	x.device, x.reader, x.reading, x.err, x.summed = l.device, l.reader, l.reading, l.err, l.summed
}

var errUnlisted = errors.New("driver does not list the GPU")

func (x *slot) condition() (source.Health, error) {
	switch {
	case x.lane.Busy():
		return source.Late, nil
	case !x.present:
		return source.Missing, errUnlisted
	case x.err != nil:
		return source.Failing, x.err
	}
	return source.Well, nil
}
