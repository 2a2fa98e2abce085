package nvml

import (
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
	// oversized is why the processes are unknown, if there are too many.
	oversized error
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
