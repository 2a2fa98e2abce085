package gpu

import "time"

// Millijoules is an amount of energy. The energy counters of NVML and DCGM use the same unit. Sums of integers are
// exact.
type Millijoules int64

// Joules converts to joules, the base unit of the metrics page.
func (m Millijoules) Joules() float64 { return float64(m) / 1000 }

// Watts is a power, which the driver averages over a second or less.
type Watts float64

// Instant is one moment on two clocks. Wall is for people and for timestamps on the page. Boot is the time of
// CLOCK_BOOTTIME. This clock is never set to another time, and it continues while the machine is suspended. The ledger
// calculates only with Boot.
type Instant struct {
	Wall time.Time     `json:"wall"`
	Boot time.Duration `json:"boot"`
}

// Sub returns the time between u and i on the boot clock.
func (i Instant) Sub(u Instant) time.Duration { return i.Boot - u.Boot }

// IsZero reports whether the instant is unset.
func (i Instant) IsZero() bool { return i == Instant{} }

// A Clock returns the current time.
type Clock func() Instant
