package gpu

import "time"

// Millijoules is an amount of energy. The energy counters of NVML and DCGM use this unit, and with
// integers the books balance exactly.
type Millijoules int64

// Joules converts to joules, the base unit of the metrics page.
func (m Millijoules) Joules() float64 { return float64(m) / 1000 }

// Watts is a power that the driver averaged over a second or less.
type Watts float64

// Instant is one moment on two clocks. Wall is for people and for timestamps on the page. Boot is
// the time of CLOCK_BOOTTIME. It is never set, it includes the time in which the machine is
// suspended, and it is the only clock that the ledger uses for calculations.
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
