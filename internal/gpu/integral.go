package gpu

import "time"

// MaxMilliwatts is higher than the power of any board.
const MaxMilliwatts = 100_000_000

// maxInterval is the longest time between two readings for which the power is integrated. If five ticks are longer than
// maxInterval, the limit is five ticks. The ledger treats a time above the limit as a gap.
const maxInterval = 10 * time.Second

// PowerIntegral is an energy counter for boards without a counter. It integrates power readings
// by the trapezoid rule and does not accumulate rounding errors. The zero value is ready for use.
type PowerIntegral struct {
	energy Millijoules
	rest   int64 // remainder below one millijoule, in half milliwatt-nanoseconds
	begun  bool
	power  uint32        // power in mW at the last reading
	at     time.Duration // time of the last reading on the boot clock
}

// halfUnits is the number of half milliwatt-nanoseconds in one millijoule.
const halfUnits = 2 * int64(time.Second)

// Add adds a power reading, in mW, at a time on the boot clock. tick is the usual interval between two readings, or 0.
// Add returns the energy since the first reading.
func (i *PowerIntegral) Add(mw uint32, at, tick time.Duration) Millijoules {
	dt := at - i.at
	if !i.begun || dt > max(maxInterval, 5*tick) {
		dt = 0
	}
	for dt > 0 {
		part := min(dt, maxInterval)
		// The limits prevent an overflow of the product, which could otherwise reach 2·2³²·10¹⁰.
		i.rest += (int64(min(i.power, MaxMilliwatts)) + int64(min(mw, MaxMilliwatts))) * int64(part)
		i.energy += Millijoules(i.rest / halfUnits)
		i.rest %= halfUnits
		dt -= part
	}
	i.begun, i.power, i.at = true, mw, at
	return i.energy
}
