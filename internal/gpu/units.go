package gpu

import "time"

// Millijoules is an amount of energy. NVML's and DCGM's energy counters have
// this unit, and integers are what lets the books balance exactly.
type Millijoules int64

// Joules converts to the base unit of the metrics page.
func (m Millijoules) Joules() float64 { return float64(m) / 1000 }

// Watts is a power, averaged by the driver over a second or less.
type Watts float64

// Instant is one moment on two clocks. Wall is for people and for timestamps on
// the page; Boot is CLOCK_BOOTTIME, which never steps and counts suspended time,
// and is the only clock the ledger does arithmetic with.
type Instant struct {
	Wall time.Time     `json:"wall"`
	Boot time.Duration `json:"boot"`
}

// Sub returns the time from u to i on the boot clock.
func (i Instant) Sub(u Instant) time.Duration { return i.Boot - u.Boot }

// IsZero reports whether the instant was never set.
func (i Instant) IsZero() bool { return i == Instant{} }

// A Clock returns the present moment.
type Clock func() Instant
