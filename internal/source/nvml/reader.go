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

// A gpuReader reads one identified GPU. It is used only in the GPU's lane.
type gpuReader struct {
	lib    *library
	handle device
	now    gpu.Clock
	procFS string
	tick   time.Duration // usual interval between two readings, or 0
	memory
	// incomplete is set if another attempt may read a missing part of the identity or register the
	// GPU for events. again is the boot-clock time of the next attempt. The attempt also reads the
	// fabric, the recovery action, the health, the details and the profile.
	incomplete bool
	again      time.Duration
	// recovery is the recovery action that the driver requires, or empty if it is unknown.
	// unreported is set if the driver does not support this value.
	recovery   string
	unreported bool
	health     healthReader
	rates      rates
	details    details
	profile    profiler
	// devices contains the MIG devices of the GPU. divided is set when all of them were read; the
	// devices are not read again until they change.
	devices []migDevice
	divided bool
	// gpm belongs to the session. An earlier reader of this GPU may have used the same gpm.
	gpm *gpm
	// oversized is the error for a GPU with too many processes, or nil.
	oversized error
	// events is the event set with which the GPU is registered.
	events *eventSet
}

// readGPU returns one reading, or an error if the GPU did not respond to any call.
func (d *session) readGPU(g *gpuReader) (*gpu.Reading, error) {
	q := &inquiry{lib: g.lib}
	r := &gpu.Reading{
		UUID: g.device.UUID, Recovery: g.recovery, Profile: g.profile.latest,
		Health: g.health.values, Counters: g.health.counters, NVLinkRate: g.health.rate, Details: g.details.values,
	}
	g.readEnergy(q, r)
	g.readGauges(q, r)
	g.readThrottle(&inquiry{lib: g.lib, lost: q.lost}, r) // errors do not affect the other values
	mig := &inquiry{lib: g.lib, lost: q.lost}             // errors do not affect the other values
	g.gpm.settle()
	if err := g.readMIG(mig); err == nil {
		g.readContexts(q, mig, r)
		d.readInstances(g, mig, r)
	}
	g.readSamples(q, r)
	g.readQuietPower(&inquiry{lib: g.lib, lost: q.lost}, r) // errors do not affect the other values
	if err := q.err(); err != nil {
		return nil, err
	}
	return r, nil
}
