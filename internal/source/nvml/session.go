package nvml

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/lane"
	"github.com/gpuledger/gpuledger/internal/stage"
)

// identityRetry is the longest pause before a lost or incompletely identified GPU is read again. Reading a broken GPU
// may take seconds, and each attempt makes the driver write to the kernel log. It is also the interval between two
// readings of values that rarely change.
const identityRetry = 10 * time.Second

// firstRetry is the first pause before a lost GPU is read again. Each further pause is twice as
// long.
const firstRetry = identityRetry / 20

var errLate = errors.New("call timed out")

// A session is the state between one nvmlInit and the next. Only the goroutine that runs [Source.Read] uses a
// session, except for the fields that are marked below.
type session struct {
	cfg      Config
	gate     *gate
	lib      *library
	memories *memories
	driver   gpu.Driver

	counting lane.Lane[census]
	// count is the number of GPUs that the driver last counted, or -1 before the first count.
	count int
	slots []*slot
	// release is set if some GPUs are released. In this case only the other GPUs have slots.
	release *Release
	// reloaded is set when all calls report that the driver was reloaded.
	reloaded bool

	// The following fields can be used by any goroutine.
	indices sync.Map                 // UUID → index of the GPU's slot
	uuids   sync.Map                 // gonvml.Device → UUID, for events
	gpms    sync.Map                 // UUID → *gpm
	events  atomic.Pointer[eventSet] // nil while the driver provides no events
}

type census struct {
	count int
	err   error
}

// newSession runs in a lane.
func newSession(cfg Config, g *gate, lib *library, m *memories, r *Release) *session {
	q := &inquiry{lib: lib}
	d := &session{cfg: cfg, gate: g, lib: lib, memories: m, count: -1, release: r, driver: gpu.Driver{Vendor: vendor, Name: "nvml"}}
	if r != nil {
		for _, other := range r.others {
			d.slots = append(d.slots, &slot{index: other.Index, bus: other.PCIBusID})
		}
		d.count = len(d.slots)
	}
	d.driver.Version, _ = query(q, "nvmlSystemGetDriverVersion", lib.SystemGetDriverVersion)
	version, _ := query(q, "nvmlSystemGetNVMLVersion", lib.SystemGetNVMLVersion)
	d.driver.Details = map[string]string{"nvml_version": version}
	_ = d.renewEvents() // the wait for events retries this and returns the error
	return d
}

// No call may be in flight, and no call may follow.
func (d *session) close() error {
	d.freeEvents(d.events.Swap(nil))
	d.gpms.Range(func(_, g any) bool {
		g.(*gpm).release(&inquiry{lib: d.lib})
		return true
	})
	if ret := d.lib.Shutdown(); ret != gonvml.SUCCESS {
		return fmt.Errorf("nvmlShutdown: %w", ret)
	}
	return nil
}

// call starts work in a lane, unless earlier work still runs in this lane.
func call[T any](d *session, l *lane.Lane[T], work func() T) {
	if l.Busy() || !d.gate.enter(d) {
		return
	}
	l.Begin(func() T {
		defer d.gate.leave()
		return work()
	})
}

// read counts the GPUs, reads all of them concurrently, and returns the results that arrived before
// ctx ended.
func (d *session) read(ctx context.Context) (gpu.Report, error) {
	var t tally
	d.drain(&t)
	d.renumber()
	call(d, &d.counting, d.countDevices)
	d.visit()
	counted, ok := d.counting.Take(ctx)
	if ok {
		t.add(counted.err)
		if counted.err == nil {
			d.count = counted.count
		}
	}
	if len(d.slots) == 0 {
		d.renumber()
		d.visit()
	}
	began := d.cfg.Now()
	report := d.collect(ctx, &t)
	d.observeLists(began)
	d.reloaded = t.answers > 0 && t.gone == t.answers
	switch {
	case d.reloaded:
		return gpu.Report{}, t.err
	case t.answers == 0:
		return gpu.Report{}, errLate
	case d.count < 0:
		return gpu.Report{}, fmt.Errorf("count GPUs: %w", cmp.Or(counted.err, errLate))
	}
	return report, nil
}

func (d *session) observeLists(began gpu.Instant) {
	var err error
	for _, s := range d.slots {
		err = cmp.Or(err, s.oversized)
	}
	d.cfg.Stages.Observe(stage.GPUProcesses, began, err)
}

// tally counts the results of one tick. The counts show whether the driver as a whole responds.
type tally struct {
	answers, gone int
	err           error // first error that concerns the driver as a whole
}

func (t *tally) add(err error) {
	t.answers++
	if gone(err) {
		t.gone++
		t.err = cmp.Or(t.err, err)
	}
}

func (d *session) countDevices() census {
	n, err := query(&inquiry{lib: d.lib}, "nvmlDeviceGetCount", d.lib.DeviceGetCount)
	if d.release != nil {
		n = len(d.release.others)
	}
	return census{n, err}
}

// renumber creates the slots again if the number of GPUs has changed. The driver's indices shift when a GPU disappears.
// renumber waits until no call is in flight. Otherwise two calls for one GPU could run at the same time. Until then,
// the old handles continue to work.
func (d *session) renumber() {
	inFlight := func(s *slot) bool { return s.lane.Busy() }
	if d.count < 0 || d.count == len(d.slots) || slices.ContainsFunc(d.slots, inFlight) {
		return
	}
	d.indices.Clear()
	d.slots = make([]*slot, d.count)
	for i := range d.slots {
		d.slots[i] = &slot{index: i}
	}
}

// While slots wait to be renumbered, visit identifies no GPU by its index, because the index may belong to another GPU.
func (d *session) visit() {
	now := d.cfg.Now().Boot
	for _, s := range d.slots {
		if s.reader == nil && (now < s.again || d.count != len(d.slots)) {
			continue
		}
		call(d, &s.lane, func() look { return d.look(s.index, s.bus, s.reader) })
	}
}
