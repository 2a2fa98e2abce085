package ledger

import (
	"math/bits"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// throttle returns the times for which the GPU was throttled since the last observation with throttle counters. If a
// counter fell, throttle returns 0 for it.
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

func (w *window) addThrottled(times gpu.ThrottledTimes) {
	for i := range times {
		w.throttled[i] += times[i]
	}
}

// throttledPart returns the throttled time and the throttled energy for each cause. The throttled energy is a part of
// e, in proportion to the throttled time, rounded down. For late energy the throttled time is 0, because other
// intervals count it.
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
