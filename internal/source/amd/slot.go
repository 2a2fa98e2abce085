package amd

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
)

// A slot is the place of a GPU on the PCI bus, and its lane.
type slot struct {
	card
	present   bool
	nodes     []node
	platforms map[string]string

	lane lane.Lane[look]
	// reader is nil before the first look. While the lane is busy, it belongs to the lane.
	reader  *reader
	device  gpu.Device   // as of the last look; without a UUID before
	reading *gpu.Reading // of this tick, nil if there is none
	err     error        // of the last look
	state   state
}

// look is the result of one call on a GPU.
type look struct {
	device  gpu.Device
	reader  *reader
	began   time.Duration // boot clock
	reading *gpu.Reading
	err     error
}

// maxLate is the maximum age of a late reading, counted from its start: a slower one would combine
// old energy with current processes.
const maxLate = 2500 * time.Millisecond

// drain accepts a result that arrived after its Read had ended, and reports whether there was one.
func (x *slot) drain(now time.Duration) bool {
	x.reading = nil
	if !x.lane.Busy() {
		return false
	}
	l, ok := x.lane.Poll()
	if !ok {
		return false
	}
	if now-l.began > maxLate {
		l.drop()
	}
	x.accept(l)
	return true
}

// drop discards the reading of a look. The next samples begin after it.
func (l *look) drop() { l.reading = nil }

// begin starts a call on the GPU, unless the last one has not returned.
func (x *slot) begin(cfg Config) {
	if x.lane.Busy() {
		return
	}
	if x.reader == nil || x.reader.card != x.card {
		old := x.reader
		x.reader = &reader{cfg: cfg, card: x.card}
		if old != nil { // the GPU may be the same with another number
			x.reader.former = old
		}
	}
	r := x.reader
	r.nodes, r.platforms = x.nodes, x.platforms
	x.lane.Begin(r.look)
}

// take accepts the result of the call if it arrives in time.
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
	x.reading = latest(early, x.reading)
	return true
}

func (x *slot) accept(l look) {
	x.device, x.reader, x.reading, x.err = l.device, l.reader, l.reading, l.err
}

// latest returns the newer of two readings of a GPU, one of which may be nil, with the samples of
// both.
func latest(old, young *gpu.Reading) *gpu.Reading {
	if old == nil || young == nil || old.UUID != young.UUID {
		return cmp.Or(young, old)
	}
	young.Samples = append(old.Samples, young.Samples...)
	if old.SamplesKnown && young.SamplesKnown {
		young.Sampled.From = old.Sampled.From
	}
	young.Instances = append(old.Instances, young.Instances...)
	return young
}

// state is the last logged state of a slot.
type state int

const (
	silent    state = iota // nothing yet
	answering              // the GPU is well
	late                   // it is quarantined
	missing                // the driver no longer lists it
	failing                // it cannot be identified or read
)

// logState logs when a slot's state changes.
func (x *slot) logState(log *slog.Logger) {
	was := x.state
	switch {
	case x.lane.Busy():
		x.state = late
	case !x.present:
		x.state = missing
	case x.err != nil:
		x.state = failing
	default:
		x.state = answering
	}
	if x.state == was {
		return
	}
	log = log.With("gpu", x.device.UUID, "pci", x.address)
	switch x.state {
	case late:
		log.Warn("GPU call timed out, quarantined until it returns")
	case missing:
		log.Warn("GPU is missing, retrying")
	case failing:
		log.Warn("GPU cannot be read, retrying", "err", x.err)
	case answering:
		if was != silent {
			log.Info("GPU recovered")
		}
	}
}
