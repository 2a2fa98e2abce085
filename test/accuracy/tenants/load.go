package tenants

import "math/rand/v2"

// A Load returns the work that arrives in a given millisecond, in milliseconds of GPU time. It is called once for every
// millisecond since the start, in order.
type Load func(ms int64) float64

// Evenly returns an even load with kernels that are much shorter than a millisecond.
func Evenly(duty float64) Load {
	return func(int64) float64 { return duty }
}

// Bursts returns a load that consists of bursts. The time between two bursts varies by half, so that bursts are not
// synchronous with the driver's samples. The length of a burst is in milliseconds.
func Bursts(length int, duty float64, seed uint64) Load {
	random := rand.New(rand.NewPCG(seed, uint64(length)))
	mean := float64(length) / duty
	next := mean * random.Float64()
	return func(ms int64) (work float64) {
		for next < float64(ms+1) {
			work += float64(length)
			next += mean * (0.5 + random.Float64())
		}
		return work
	}
}

// Periodic returns a load with one burst at the same time in every period. Period and burst are in
// milliseconds.
func Periodic(length, period, offset int64) Load {
	return func(ms int64) float64 {
		if ms%period == offset {
			return float64(length)
		}
		return 0
	}
}

// Within restricts a load to a part of each period. All times are in milliseconds.
func Within(load Load, from, until, period int64) Load {
	return func(ms int64) float64 {
		work := load(ms)
		if at := ms % period; at < from || at >= until {
			return 0
		}
		return work
	}
}

func longer(load Load, factor float64) Load {
	return func(ms int64) float64 { return factor * load(ms) }
}

// Gathered returns a load that does the work of each period at the end of the period. The period is in milliseconds.
func Gathered(load Load, period int64) Load {
	var waits float64
	return func(ms int64) (work float64) {
		if waits += load(ms); ms%period == period-1 {
			work, waits = waits, 0
		}
		return work
	}
}
