package nvml

import (
	"time"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// throttleCounters contains the driver's fields that count throttled time, in ns (nvml.h). The two thermal counters may
// count the same time, because hardware and software can slow the GPU down at the same time.
var throttleCounters = [...]struct {
	field uint32
	cause gpu.Throttle
}{
	{gonvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN, gpu.ThrottleThermal},
	{gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN, gpu.ThrottleThermal},
	{gonvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN, gpu.ThrottlePowerBrake},
}

// throttleReasons contains the bits of the current reasons (nvml.h, nvmlClocksEventReason*, and the
// two reasons of nvmlClocksThrottleReason* that have no newer name).
var throttleReasons = [gpu.NumThrottles]uint64{
	gpu.ThrottleThermal:    gonvml.ClocksEventReasonSwThermalSlowdown | gonvml.ClocksThrottleReasonHwThermalSlowdown,
	gpu.ThrottlePowerBrake: gonvml.ClocksThrottleReasonHwPowerBrakeSlowdown,
}

// throttleGap is the longest time between two readings of the reasons that can count as throttled. If two ticks are
// longer than throttleGap, the limit is two ticks.
const throttleGap = 5 * time.Second

// A throttle counts the time for which a GPU was throttled. It uses the driver's counters. Older
// drivers report only the current reasons. With such a driver, the time between two readings counts
// as throttled for a reason if both readings contain this reason.
type throttle struct {
	times    gpu.ThrottledTimes
	counters [len(throttleCounters)]*uint64 // values at the last reading; nil if they are unknown
	// uncounted is set if the driver has no counters. unsupported is set if the driver also reports no
	// reasons.
	uncounted, unsupported bool
	reasons                uint64
	at                     time.Duration // boot-clock time at which the reasons were last read, or 0
}

func (t *throttle) restarted() { *t = throttle{times: t.times} }

func (g *gpuReader) readThrottle(q *inquiry, r *gpu.Reading) {
	t := &g.throttle
	if !t.uncounted {
		if g.readThrottleCounters(q, r); !t.uncounted {
			return
		}
	}
	if t.unsupported {
		return
	}
	bits, err := query(q, "nvmlDeviceGetCurrentClocksEventReasons", g.handle.GetCurrentClocksEventReasons)
	if err != nil {
		t.at, t.unsupported = 0, unsupported(err)
		return
	}
	now := g.now().Boot
	if took := now - t.at; t.at > 0 && took <= max(throttleGap, 2*g.tick) {
		for cause, mask := range throttleReasons {
			if bits&mask != 0 && t.reasons&mask != 0 {
				t.times[cause] += took
			}
		}
	}
	t.reasons, t.at = bits, now
	r.Throttled = new(t.times)
}

// If two counters have the same cause, readThrottleCounters adds the larger of their increases.
func (g *gpuReader) readThrottleCounters(q *inquiry, r *gpu.Reading) {
	t := &g.throttle
	values, err := query(q, "nvmlDeviceGetFieldValues", func() ([]gonvml.FieldValue, ret) {
		var values []gonvml.FieldValue
		for _, c := range throttleCounters {
			values = append(values, gonvml.FieldValue{FieldId: c.field, NvmlReturn: uint32(gonvml.ERROR_NOT_SUPPORTED)})
		}
		return values, g.handle.GetFieldValues(values)
	})
	if err != nil {
		t.uncounted = unsupported(err)
		return
	}
	var grown gpu.ThrottledTimes
	supported, known := false, false
	for i, c := range throttleCounters {
		supported = supported || !unsupported(ret(values[i].NvmlReturn))
		ns, err := available64(fieldInteger(values[i]))
		if ret(values[i].NvmlReturn) != gonvml.SUCCESS || err != gonvml.SUCCESS {
			continue
		}
		if last := t.counters[i]; last != nil && ns > *last {
			grown[c.cause] = max(grown[c.cause], time.Duration(ns-*last))
		}
		t.counters[i], known = &ns, true
	}
	for cause := range grown {
		t.times[cause] += grown[cause]
	}
	if t.uncounted = !supported; known {
		r.Throttled = new(t.times)
	}
}
