package nvml

import (
	"math"
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Short names for what nearly every call is about.
type (
	device = gonvml.Device
	ret    = gonvml.Return
)

// A board is one identified GPU. It is used within the GPU's lane only.
type board struct {
	lib    *library
	handle device
	now    gpu.Clock
	memory
	// incomplete is set while something of the identity or the registration for
	// events is missing that may yet be had; again is when to ask for it, on the
	// boot clock.
	incomplete bool
	again      time.Duration
	// parts are the MIG devices that the device's MIG was made of, and divided is
	// set once all of it was read: until they change it is not read again.
	parts   []part
	divided bool
	// gpm is the session's, as it was for an earlier board of the GPU.
	gpm *gpm
	// crowded is why the processes are unknown, if there are too many.
	crowded error
	// events is the set that the GPU was last to be registered with.
	events *eventSet
}

// read takes one reading. Its error says that the GPU told nothing at all.
func (b *board) read() (*gpu.Reading, error) {
	q := &inquiry{lib: b.lib}
	r := &gpu.Reading{UUID: b.device.UUID}
	b.readEnergy(q, r)
	b.readGauges(q, r)
	mig := &inquiry{lib: b.lib, lost: q.lost} // what fails of MIG says nothing about the GPU itself
	b.gpm.moved = false
	if err := b.readMIG(mig); err == nil {
		b.readContexts(q, mig, r)
		b.readInstances(mig, r)
	}
	b.readSamples(q, r)
	if err := q.err(); err != nil {
		return nil, err
	}
	return r, nil
}

func (b *board) readGauges(q *inquiry, r *gpu.Reading) {
	h := b.handle
	if mw, err := ask(q, "nvmlDeviceGetEnforcedPowerLimit", func() (uint32, ret) { return available(h.GetEnforcedPowerLimit()) }); err == nil {
		r.PowerLimit = new(watts(mw))
	}
	if c, err := ask(q, "nvmlDeviceGetTemperature", func() (uint32, ret) { return available(h.GetTemperature(gonvml.TEMPERATURE_GPU)) }); err == nil {
		r.Temperature = new(float64(c))
	}
	if u, err := ask(q, "nvmlDeviceGetUtilizationRates", h.GetUtilizationRates); err == nil && u.Gpu <= 100 {
		r.Utilization = new(float64(u.Gpu) / 100)
	}
	if m, err := ask(q, "nvmlDeviceGetMemoryInfo", h.GetMemoryInfo); err == nil && max(m.Used, m.Total) < math.MaxUint64 {
		r.MemoryUsed, r.MemoryTotal = &m.Used, &m.Total
	}
	r.SMClock = b.clock(q, gonvml.CLOCK_SM)
	r.MemoryClock = b.clock(q, gonvml.CLOCK_MEM)
	if rows, err := ask(q, "nvmlDeviceGetRemappedRows", func() (gpu.RowRemap, ret) {
		_, _, pending, failed, r := h.GetRemappedRows()
		return gpu.RowRemap{Pending: pending, Failed: failed}, r
	}); err == nil {
		r.RowRemap = &rows
	}
}

// clock returns a clock in hertz; the driver counts in MHz.
func (b *board) clock(q *inquiry, which gonvml.ClockType) *float64 {
	mhz, err := ask(q, "nvmlDeviceGetClockInfo", func() (uint32, ret) { return available(b.handle.GetClockInfo(which)) })
	if err != nil {
		return nil
	}
	return new(float64(mhz) * 1e6)
}

// available refuses what the driver fills with ones (NVML_VALUE_NOT_AVAILABLE).
func available(n uint32, r ret) (uint32, ret) {
	if r == gonvml.SUCCESS && n == math.MaxUint32 {
		return 0, gonvml.ERROR_NO_DATA
	}
	return n, r
}

// watts converts from milliwatts, the driver's unit of power.
func watts(mw uint32) gpu.Watts { return gpu.Watts(mw) / 1000 }
