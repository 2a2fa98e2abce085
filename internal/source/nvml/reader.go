package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// These are short names of frequently used types.
type (
	device = gonvml.Device
	ret    = gonvml.Return
)

// A gpuReader reads one identified GPU. It is used only in the lane of the GPU.
type gpuReader struct {
	lib    *library
	handle device
	now    gpu.Clock
	procFS string
	memory
	// incomplete is set while a part of the identity, or the registration for events, failed but may
	// succeed later. again is the boot-clock time of the next attempt, which also reads the fabric and
	// the recovery.
	incomplete bool
	again      time.Duration
	// recovery is the action that the driver requires, or empty if unknown; unreported is set if the
	// driver reports none.
	recovery   string
	unreported bool
	health     healthReader
	profile    profiler
	// devices contains the MIG devices of the GPU; divided is set once all of them were read. They
	// are not read again until they change.
	devices []migDevice
	divided bool
	// gpm belongs to the session, and earlier boards at this place also used it.
	gpm *gpm
	// oversized is the error that there are too many processes.
	oversized error
	// events is the event set with which the GPU was last registered.
	events *eventSet
}

// readGPU returns one reading, or an error if the GPU did not respond to any call.
func (d *session) readGPU(g *gpuReader) (*gpu.Reading, error) {
	q := &inquiry{lib: g.lib}
	r := &gpu.Reading{UUID: g.device.UUID, Recovery: g.recovery, Health: g.health.values, Counters: g.health.counters, NVLinkRate: g.health.rate, Profile: g.profile.latest}
	g.readEnergy(q, r)
	g.readGauges(q, r)
	g.readThrottle(&inquiry{lib: g.lib, lost: q.lost}, r) // errors of the profile do not affect the other values
	mig := &inquiry{lib: g.lib, lost: q.lost}             // errors of MIG do not affect the other values of the GPU
	g.gpm.settle()
	if err := g.readMIG(mig); err == nil {
		g.readContexts(q, mig, r)
		d.readInstances(g, mig, r)
	}
	g.readSamples(q, r)
	g.readQuietPower(&inquiry{lib: g.lib, lost: q.lost}, r) // its errors do not affect the other values
	if err := q.err(); err != nil {
		return nil, err
	}
	return r, nil
}
