package gpu

import "time"

// Throttle is a reason why the driver reduces the clocks of a GPU.
type Throttle int

// The reasons. Both reasons may apply at the same time.
const (
	ThrottleThermal    Throttle = iota // the GPU or its memory is too hot
	ThrottlePowerBrake                 // the power supply of the machine or rack asserts the power brake
	NumThrottles
)

// String returns the value of the throttle label.
func (t Throttle) String() string { return [...]string{"thermal", "power_brake"}[t] }

// ThrottledTimes contains the times for which a GPU was throttled, by reason.
type ThrottledTimes [NumThrottles]time.Duration

// Throttled contains the energy that was used while a GPU was throttled, and the throttled time.
type Throttled struct {
	Energy Millijoules   `json:"energy"`
	Time   time.Duration `json:"time"`
}

// ByThrottle contains the throttled energy and time by reason.
type ByThrottle [NumThrottles]Throttled

// Plus adds more to t, reason by reason.
func (t ByThrottle) Plus(more ByThrottle) ByThrottle {
	for i := range t {
		t[i].Energy += more[i].Energy
		t[i].Time += more[i].Time
	}
	return t
}
