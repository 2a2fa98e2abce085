package sampler

import (
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// markEvery is the interval between marks. If a GPU has no reading for a longer time, its history starts again.
const markEvery = time.Minute

// A mark contains sums over the readings from the start of a history to one reading.
type mark struct {
	at                 time.Duration // time of the reading on the boot clock
	clock, utilization float64
	readings           float64 // number of readings that contain both the clock and the utilisation
	slowdowns          [len(gpu.Slowdowns)]float64
}

// A history contains the sums up to the last reading of a GPU, and at most twelve marks from the last minutes.
type history struct {
	last  mark
	marks []mark // oldest first; after ten minutes, the first mark is the newest mark that is at least ten minutes old
	// known is set for each slowdown counter that any reading has contained.
	known [len(gpu.Slowdowns)]bool
}

// histories contains a history for each GPU, by UUID.
type histories map[string]*history

// update also removes GPUs without a reading for longer than markEvery.
func (all histories) update(readings []gpu.Reading, now gpu.Instant) {
	for i := range readings {
		r := &readings[i]
		h := all[r.UUID]
		if h == nil {
			h = new(history)
			all[r.UUID] = h
		}
		h.add(r)
	}
	for uuid, h := range all {
		if now.Boot-h.last.at > markEvery {
			delete(all, uuid)
		}
	}
}

// add starts the history again in two cases. If a slowdown counter decreases, the GPU was reset. If a slowdown counter
// appears, its earlier value is unknown. A counter that is missing from the reading keeps its last value.
func (h *history) add(r *gpu.Reading) {
	next := h.last
	next.at = r.At.Boot
	for i, seconds := range slowdowns(r) {
		if seconds == nil {
			continue
		}
		if !h.known[i] || *seconds < h.last.slowdowns[i] {
			h.marks = nil
		}
		next.slowdowns[i], h.known[i] = *seconds, true
	}
	if next.at-h.last.at > markEvery {
		h.marks = nil
	}
	if clock, utilization := r.Gauges[gpu.SMClock], r.Gauges[gpu.Utilization]; clock != nil && utilization != nil {
		next.clock, next.utilization, next.readings = next.clock+*clock, next.utilization+*utilization, next.readings+1
	}
	h.last = next
	if n := len(h.marks); n == 0 || next.at-h.marks[n-1].at >= markEvery {
		h.marks = append(h.marks, next)
	}
	for len(h.marks) > 1 && next.at-h.marks[1].at >= gpu.RecentTime {
		h.marks = slices.Delete(h.marks, 0, 1)
	}
}

// slowdowns returns the slowdown counters in seconds. A missing counter is nil.
func slowdowns(r *gpu.Reading) (seconds [len(gpu.Slowdowns)]*float64) {
	for k := range r.Health {
		v := &r.Health[k]
		if v.Metric != gpu.ClockLimitedTime {
			continue
		}
		if i := slices.Index(gpu.Slowdowns[:], v.Labels[0]); i >= 0 {
			seconds[i] = &v.Value
		}
	}
	return seconds
}

// recent describes the last ten minutes of a GPU. It returns nil if the history is shorter.
func (all histories) recent(uuid string) *gpu.Recent {
	h := all[uuid]
	if h == nil || h.last.at-h.marks[0].at < gpu.RecentTime {
		return nil
	}
	first, r := h.marks[0], new(gpu.Recent)
	for i := range r.Slowdowns {
		r.Slowdowns[i] = (h.last.slowdowns[i] - first.slowdowns[i]) / (h.last.at - first.at).Seconds()
	}
	if n := h.last.readings - first.readings; n > 0 {
		r.Clock, r.Utilization = (h.last.clock-first.clock)/n, (h.last.utilization-first.utilization)/n
	}
	return r
}
