package gpu

import "time"

// RecentTime is the length of the period that [Recent] describes.
const RecentTime = 10 * time.Minute

// Slowdowns contains the clock limits that are caused by heat or by a power brake. They are values of the label
// clock_limit of [ClockLimitedTime].
var Slowdowns = [...]string{"software_thermal", "hardware_thermal", "power_brake", "prochot", "socket_thermal", "regulator_thermal", "memory_thermal"}

// Recent describes a GPU over the last [RecentTime].
type Recent struct {
	// Slowdowns contains the fraction of the time in which each slowdown limited the clocks. A fraction is 0 if the GPU
	// does not report the slowdown.
	Slowdowns [len(Slowdowns)]float64
	// Clock is the average clock of the streaming multiprocessors in Hz, and Utilization is the average utilisation from 0
	// to 1. Both are 0 unless the GPU reports both.
	Clock, Utilization float64
}
