package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// Short names of frequent types.
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
	// incomplete is set while a part of the identity or the registration for events failed and may
	// succeed later; again is the boot clock of the next attempt.
	incomplete bool
	again      time.Duration
	// parts are the MIG devices in the device's MIG; divided is set once all of them were read.
	// They are not read again until they change.
	parts   []part
	divided bool
	// gpm is the session's, shared with earlier boards of the GPU.
	gpm *gpm
	// oversized is the error if there are too many processes.
	oversized error
	// events is the set with which the GPU was last registered.
	events *eventSet
}

// read returns one reading, or an error if the GPU responded to no call.
func (b *board) read() (*gpu.Reading, error) {
	q := &inquiry{lib: b.lib}
	r := &gpu.Reading{UUID: b.device.UUID}
	b.readEnergy(q, r)
	b.readGauges(q, r)
	mig := &inquiry{lib: b.lib, lost: q.lost} // errors of MIG do not concern the GPU itself
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
