package nvml

import (
	"context"
	"fmt"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/source"
)

// A slot contains the GPU at one index in the driver's list.
type slot struct {
	index int
	// bus is the PCI address through which the GPU is opened. If it is empty, the GPU is opened through its index in
	// the driver.
	bus  string
	lane lane.Lane[look]
	// reader is nil while the GPU is unknown or lost. While the lane is busy, the reader belongs to
	// the lane.
	reader *gpuReader
	device gpu.Device // device after the last call
	err    error      // error of the last call
	// oversized is the error for a GPU with too many processes, or nil.
	oversized error
	again     time.Duration // boot-clock time until which a slot without a reader makes no call
	pause     time.Duration // length of the last pause before a call; 0 while there is a reader
	// belated is a reading that arrived after its Read had ended. The next Read reports it.
	belated *gpu.Reading
	health  source.Health
}

// look is the result of one call that reads a GPU.
type look struct {
	reader    *gpuReader // nil if the GPU could not be identified, or is lost
	memory    memory
	began     time.Duration // boot-clock time at which the reading began
	since     position      // position in the samples at that time
	reading   *gpu.Reading
	oversized error
	err       error
}

// If g is nil, look first identifies the GPU. It runs in the lane of the slot.
func (d *session) look(index int, bus string, g *gpuReader) look {
	if g == nil {
		var err error
		if g, err = d.find(index, bus); err != nil {
			return look{err: err}
		}
	}
	g.rates = rates{}
	d.complete(g)
	l := look{reader: g, began: g.now().Boot, since: g.position}
	l.reading, l.err = d.readGPU(g)
	l.memory, l.oversized = g.memory, g.oversized
	if hasCode(l.err, gonvml.ERROR_GPU_IS_LOST) {
		l.reader = nil
		g.gpm.lost(&inquiry{lib: d.lib})
		d.indices.Delete(g.device.UUID)
	}
	return l
}

// drop discards a reading. The next reading then also contains the samples of the discarded reading.
func (l *look) drop() {
	l.reading = nil
	l.memory.position = l.since
	if l.reader != nil {
		l.reader.position = l.since
		l.reader.gpm.undo()
	}
}

// drain accepts the results that arrived after their Read had ended. The next calls can then start at once. drain drops
// readings that are too old.
func (d *session) drain(t *tally) {
	now := d.cfg.Now().Boot
	for _, s := range d.slots {
		s.belated = nil
		l, ok := s.lane.Poll()
		if !ok {
			continue
		}
		if now-l.began > source.MaxLate {
			l.drop()
		}
		t.add(l.err)
		d.accept(s, l)
		s.belated = l.reading
	}
}

// collect accepts the results that arrive before ctx ends, and returns the known devices and
// readings. Later results are accepted by the next drain.
func (d *session) collect(ctx context.Context, t *tally) gpu.Report {
	report := gpu.Report{Drivers: []gpu.Driver{d.driver}}
	for _, s := range d.slots {
		reading := s.belated
		if !s.lane.Late() {
			if l, ok := s.lane.Take(ctx); ok {
				t.add(l.err)
				d.accept(s, l)
				reading = latest(reading, l.reading)
			}
		}
		if now := s.condition(); now != s.health {
			s.health.Log(d.cfg.Log.With("gpu", s.device.UUID, "index", s.index), now, s.err)
		}
		if s.reader == nil {
			if s.lane.Busy() {
				report.Opening = append(report.Opening, vendor)
			}
			if s.device.UUID != "" {
				report.Lost = append(report.Lost, s.device.UUID)
			}
			continue
		}
		report.Devices = append(report.Devices, s.device)
		if reading != nil {
			report.Readings = append(report.Readings, *reading)
		}
	}
	if d.release != nil {
		report.Devices = append(report.Devices, d.release.gpus...)
	}
	return report
}

func (d *session) accept(s *slot, l look) {
	s.reader, s.err, s.oversized = l.reader, l.err, l.oversized
	if l.memory.device.UUID != "" {
		s.device = l.memory.device
		d.memories.keep(l.memory)
	}
	if l.reader != nil {
		s.pause = 0
		return
	}
	s.pause = min(max(firstRetry, 2*s.pause), identityRetry)
	s.again = d.cfg.Now().Boot + s.pause
}

// latest merges two readings of a GPU. If there is too little time between the readings (see [gpmRefresh]), only one of
// them may contain the activity of instances. The merged reading then contains this activity.
func latest(old, young *gpu.Reading) *gpu.Reading {
	joined := source.Latest(old, young)
	if old != nil && young != nil && young.At.Sub(old.At) <= 2*gpmRefresh { // too early for new activity
		joined.InstancesKnown = young.InstancesKnown || old.InstancesKnown
	}
	return joined
}

func (s *slot) condition() source.Health {
	switch {
	case s.lane.Busy():
		return source.Late
	case s.reader == nil:
		return source.Missing
	case s.err != nil:
		return source.Failing
	}
	return source.Well
}

// Getting the handle opens the GPU. handle does not use the UUID: to find a UUID, the driver opens other GPUs until it
// finds the right GPU (nvml.h).
func (d *session) handle(q *inquiry, index int, bus string) (device, error) {
	if bus != "" {
		return query(q, "nvmlDeviceGetHandleByPciBusId", func() (device, ret) { return d.lib.DeviceGetHandleByPciBusId(bus) })
	}
	return query(q, "nvmlDeviceGetHandleByIndex", func() (device, ret) { return d.lib.DeviceGetHandleByIndex(index) })
}

// find rejects a GPU that is already in another slot. Otherwise two calls for this GPU could run at the same time. It
// runs in a lane.
func (d *session) find(index int, bus string) (*gpuReader, error) {
	q := &inquiry{lib: d.lib}
	handle, err := d.handle(q, index, bus)
	if err != nil {
		return nil, err
	}
	uuid, err := query(q, "nvmlDeviceGetUUID", handle.GetUUID)
	if err != nil {
		return nil, err
	}
	if uuid == "" {
		return nil, fmt.Errorf("nvmlDeviceGetUUID: GPU %d has no UUID", index)
	}
	if other, taken := d.indices.LoadOrStore(uuid, index); taken {
		return nil, fmt.Errorf("nvmlDeviceGetUUID: GPU %d has the same UUID %s as GPU %d", index, uuid, other)
	}
	known, _ := d.gpms.LoadOrStore(uuid, &gpm{profiling: d.cfg.Profiling, longest: max(maxInterval, 2*d.cfg.Tick)})
	g := &gpuReader{lib: d.lib, handle: handle, now: d.cfg.Now, procFS: d.cfg.ProcFS, tick: d.cfg.Tick, memory: d.memories.recall(uuid), gpm: known.(*gpm), incomplete: true}
	g.device.UUID, g.device.Index, g.device.Vendor = uuid, index, vendor
	return g, nil
}

// The first pauses of the GPUs differ, so that complete reads only few GPUs in a tick.
func (g *gpuReader) pause() time.Duration {
	if g.again > 0 {
		return identityRetry
	}
	return identityRetry - time.Duration(g.device.Index)*time.Second%identityRetry
}

// After each pause, complete reads the missing parts of a GPU's identity, the fabric and the recovery action. If
// enabled, it also reads the health, the details and the profile. It registers the GPU for events. It runs in a lane.
func (d *session) complete(g *gpuReader) {
	due := g.now().Boot >= g.again
	incomplete := due && g.incomplete
	switch {
	case incomplete:
		g.identify()
	case due && g.device.Fabric != nil:
		g.readFabric(&inquiry{lib: d.lib})
	}
	if due {
		g.readRecovery(&inquiry{lib: d.lib})
		if d.cfg.Health {
			g.readHealth()
		}
		if d.cfg.Details {
			g.readDetails()
		}
		if d.cfg.Profiling {
			d.readProfile(g)
		}
		g.again = g.now().Boot + g.pause()
	}
	if incomplete || g.events != d.events.Load() {
		d.subscribe(g)
	}
}
