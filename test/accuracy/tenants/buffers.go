package tenants

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
	"github.com/gpuledger/gpuledger/internal/source/nvml/quiet"
)

// These are the sizes of the driver's sample buffers.
const (
	powerBuffer = 120
	busyBuffer  = 99
)

// buffers contains the driver's buffers of power and utilisation samples, and the state that the NVML source derives
// from them.
type buffers struct {
	power, busy []quiet.Point
	times       quiet.Times
	due         time.Duration // boot-clock time
}

func (r *reader) quietPower(at gpu.Instant, taken []sample, powers []powerSample) gpu.Watts {
	b := &r.buffers
	for _, p := range powers {
		b.power = append(b.power, quiet.Point{At: instant(p.at).Wall.UnixMicro(), Value: p.watts})
	}
	for _, s := range taken {
		b.busy = append(b.busy, quiet.Point{At: instant(s.at).Wall.UnixMicro(), Value: s.percent / 100})
	}
	b.power, b.busy = lastOf(b.power, powerBuffer), lastOf(b.busy, busyBuffer)
	if len(b.power) == 0 || at.Boot < b.due {
		return 0
	}
	b.due = at.Boot + b.times.Pause()
	return gpu.Watts(b.times.Measure(slices.Clone(b.power), slices.Clone(b.busy), float64(r.Limit)))
}

func lastOf[T any](values []T, n int) []T { return values[max(len(values)-n, 0):] }
