package simnode

import (
	"math/rand/v2"
	"time"
)

// The driver's ring of utilisation samples holds 72 of them over 10 seconds.
const (
	ringLength = 72
	ringSpan   = 10 * time.Second
)

// ring is the process-utilisation samples of one GPU. A sample is the busy
// percentage and the one process that was active at that moment; while nothing
// runs there are none. (NVIDIA open-gpu-kernel-modules, ctrl2080perf.h.)
type ring struct {
	samples []sample
	next    int64 // number of the next sample since the start
}

// sample is one row of the ring.
type sample struct {
	at           time.Duration // since the start
	pid          uint32
	busy, memory int // percent
}

// sampleTime returns when the k-th sample is taken, since the start.
func sampleTime(k int64) time.Duration { return time.Duration(k * int64(ringSpan) / ringLength) }

// record takes the samples that fall due until a time, while the given loads run,
// and forgets those that fell out of the ring. It returns what it took: while nothing
// runs a sample names nobody, and is not in the ring. Without random numbers the samples
// are spread evenly over the loads.
func (r *ring) record(until time.Duration, loads []load, random *rand.Rand) (taken []sample) {
	busy := 0
	for _, l := range loads {
		busy += l.percent
	}
	for ; sampleTime(r.next) <= until; r.next++ {
		if busy == 0 {
			taken = append(taken, sample{at: sampleTime(r.next)})
			continue
		}
		point := evenly(r.next, busy)
		if random != nil {
			point = random.IntN(busy)
		}
		s := sample{sampleTime(r.next), pick(loads, point), busy, busy / 3}
		taken, r.samples = append(taken, s), append(r.samples, s)
	}
	for len(r.samples) > 0 && r.samples[0].at <= until-ringSpan {
		r.samples = r.samples[1:]
	}
	return taken
}

// evenly returns the k-th number of a sequence below n that fills it evenly: multiples of
// the golden ratio, without their whole part.
func evenly(k int64, n int) int {
	const ratio = 2654435769 // of 2³²
	return int(uint64(uint32(k)*ratio) * uint64(n) >> 32)
}

// pick returns the process that is active at a point of the busy time.
func pick(loads []load, point int) uint32 {
	for _, l := range loads {
		if point -= l.percent; point < 0 {
			return seen(l, loads).process.id.PID
		}
	}
	return 0
}

// seen returns the load that the driver takes a load for: an MPS client's work is
// its server's.
func seen(l load, loads []load) load {
	if l.context != MPSClient {
		return l
	}
	for _, other := range loads {
		if other.context == MPSServer {
			return other
		}
	}
	return l
}
