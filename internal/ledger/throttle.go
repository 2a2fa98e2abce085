package ledger

import (
	"math/bits"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// throttle returns the times for which the GPU was throttled since the last observation that
// contained throttle counters of this GPU. If a counter fell, throttle assumes that the counter
// restarted at 0.
func (b *book) throttle(now *gpu.ThrottledTimes) (times gpu.ThrottledTimes) {
	if now == nil {
		return times
	}
	if b.throttled != nil {
		for i := range times {
			times[i] = max(0, now[i]-b.throttled[i])
		}
	}
	b.throttled = now
	return times
}

// addThrottled adds throttled times.
func (w *window) addThrottled(times gpu.ThrottledTimes) {
	for i := range times {
		w.throttled[i] += times[i]
	}
}

// throttledPart returns two amounts for each cause. The first is the time of the interval for which
// the GPU was throttled. The second is the part of the energy e that was used in this time, rounded
// down, under the assumption that the power was constant over the interval. For late energy the
// throttled time is 0, because other intervals count this time.
func (iv *interval) throttledPart(e gpu.Millijoules) (part gpu.ByThrottle) {
	span := iv.span().Len()
	for cause := range part {
		t := min(iv.throttled[cause], span)
		if t == 0 {
			continue
		}
		hi, lo := bits.Mul64(uint64(e), uint64(t))
		throttled, _ := bits.Div64(hi, lo, uint64(span))
		part[cause].Energy = gpu.Millijoules(throttled)
		if !iv.timeless {
			part[cause].Time = t
		}
	}
	return part
}

// countThrottled adds the throttled part of each owner's energy to the owner's account.
func (b *book) countThrottled(p *part) {
	if p.throttled == (gpu.ThrottledTimes{}) {
		return
	}
	for _, s := range p.allShares() {
		if s.owner.Kind.HasAccount() && !s.vanished {
			a := b.account(p.key(s.owner), p.from.At.Wall)
			a.Throttled = a.Throttled.Plus(p.throttledPart(s.energy.Sum()))
		}
	}
}
