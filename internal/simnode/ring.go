package simnode

import (
	"math/rand/v2"
	"slices"
	"time"
)

// Sampling configures the driver's utilisation samples. The zero value has the rate of NVIDIA's ring buffer, 72 samples
// in 10 seconds (NVIDIA open-gpu-kernel-modules, ctrl2080perf.h). No other value gives samples that represent the work
// better.
type Sampling struct {
	// PerSecond is the sampling rate in hertz; 0 means 7.2. NVIDIA documents rates from 1 to 6 Hz, depending on the
	// product.
	PerSecond float64
	// Even distributes the samples among processes exactly in proportion to their activity, instead of at random.
	Even bool
	// Idle selects the process that a sample names while no process runs.
	Idle Names
	// Power is the time over which the driver averages a power sample, up to one second. If Power is 0, there are no
	// power samples.
	Power time.Duration
}

// Names selects the process that a sample names while nothing runs. The driver's header allows three interpretations.
// Public traces do not show which one is right.
type Names int

// These are the possible names in a sample while nothing runs.
const (
	NamesActive Names = iota // a process with a context, with 0 %
	NamesLast                // the last process that ran, selected at random from the active processes
	NamesNone                // no process, because there is no sample
)

// ringSpan is the period that the samples in the driver's ring cover.
const ringSpan = 10 * time.Second

// ring contains samples of one GPU: the busy percentage, and the process that ran at the time of the sample.
type ring struct {
	samples []sample
	next    int64 // number of the next sample since the start
	last    uint32
}

type sample struct {
	at           time.Duration // time since the start
	pid          uint32        // 0 if the sample names no process
	busy, memory int           // percent
}

func (s Sampling) at(k int64) time.Duration {
	if s.PerSecond == 0 {
		const ringLength = 72
		return time.Duration(k * int64(ringSpan) / ringLength)
	}
	return time.Duration(float64(k) / s.PerSecond * float64(time.Second))
}

// record takes the samples that are due until the given time, and returns them. It adds only samples that name a
// process to the ring, which keeps them for ringSpan.
func (r *ring) record(how Sampling, until time.Duration, loads []load, random *rand.Rand) (taken []sample) {
	for ; how.at(r.next) <= until; r.next++ {
		s := r.take(how, loads, random)
		s.at = how.at(r.next)
		if taken = append(taken, s); s.pid != 0 {
			r.samples = append(r.samples, s)
		}
	}
	for len(r.samples) > 0 && r.samples[0].at <= until-ringSpan {
		r.samples = r.samples[1:]
	}
	return taken
}

func (r *ring) take(how Sampling, loads []load, random *rand.Rand) sample {
	busy := 0
	for _, l := range loads {
		busy += l.percent
	}
	number := func(n int) int { return random.IntN(n) }
	if how.Even {
		number = func(n int) int { return evenly(r.next, n) }
	}
	resting := how.Idle != NamesActive && number(100) >= busy // no process runs at the time of the sample
	switch {
	case len(loads) == 0 || how.Idle == NamesNone && resting:
		return sample{}
	case busy == 0 && how.Idle == NamesActive:
		return sample{pid: sampledAs(loads[int(r.next)%len(loads)], loads).process.id.PID}
	case busy > 0 && resting:
		at := slices.DeleteFunc(slices.Clone(loads), func(l load) bool { return l.percent == 0 })
		r.last = sampledAs(at[number(len(at))], loads).process.id.PID
	case busy > 0:
		r.last = pick(loads, number(busy))
	}
	return sample{pid: r.last, busy: busy, memory: busy / 3}
}

// evenly returns the k-th number of a sequence that is spread evenly below n. The sequence contains the fractional
// parts of the multiples of the golden ratio.
func evenly(k int64, n int) int {
	const ratio = 2654435769 // fraction of 2³²
	return int(uint64(uint32(k)*ratio) * uint64(n) >> 32)
}

// pick returns the process that runs at a point of the busy time.
func pick(loads []load, point int) uint32 {
	for _, l := range loads {
		if point -= l.percent; point < 0 {
			return sampledAs(l, loads).process.id.PID
		}
	}
	return 0
}

// Samples of an MPS client name its server.
func sampledAs(l load, loads []load) load {
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
