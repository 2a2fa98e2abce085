package gpu

import "time"

// Millijoules is an amount of energy. The energy counters of NVML and DCGM have this unit, and
// integers let the books balance exactly.
type Millijoules int64

// Joules converts to joules, the base unit of the metrics page.
func (m Millijoules) Joules() float64 { return float64(m) / 1000 }

// Watts is power, averaged by the driver over a second or less.
type Watts float64

// Instant is one moment on two clocks. Wall is for people and for timestamps on the page. Boot is
// CLOCK_BOOTTIME: it never steps, it includes suspended time, and it is the only clock that the
// ledger uses for calculations.
type Instant struct {
	Wall time.Time     `json:"wall"`
	Boot time.Duration `json:"boot"`
}

// Sub returns the time from u to i on the boot clock.
func (i Instant) Sub(u Instant) time.Duration { return i.Boot - u.Boot }

// IsZero reports whether the instant is unset.
func (i Instant) IsZero() bool { return i == Instant{} }

// A Clock returns the current time.
type Clock func() Instant
