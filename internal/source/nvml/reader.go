package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

type (
	device = gonvml.Device
	ret    = gonvml.Return
)

// A gpuReader is used only in the GPU's lane.
type gpuReader struct {
	lib    *library
	handle device
	now    gpu.Clock
	procFS string
	tick   time.Duration // usual interval between two readings, or 0
	memory
	// incomplete is set if another attempt may read a missing part of the identity or register the GPU for events.
	// again is the boot-clock time of the next attempt.
	incomplete bool
	again      time.Duration
	// recovery is empty if the required recovery action is unknown. unreported is set if the driver does not support
	// this value.
	recovery   string
	unreported bool
	health     healthReader
	rates      rates
	details    details
	profile    profiler
	// devices contains the MIG devices. divided is set after all MIG devices were read. They are read again only when
	// they change.
	devices []migDevice
	divided bool
	// gpm belongs to the session. An earlier reader of this GPU may have used the same gpm.
	gpm *gpm
	// oversized is the error for a GPU with too many processes, or nil.
	oversized error
	events    *eventSet
}

// readGPU returns an error if the GPU did not respond to any call.
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
