package simnode

import (
	"math/rand/v2"
	"time"
)

// The driver keeps samples in two buffers (nvmlDeviceGetSamples). The first buffer contains the last powerBuffer power
// samples, taken at the interval powerEvery. The second buffer contains the last busyBuffer utilisation samples, taken
// at the times of the ring's samples.
const (
	powerBuffer = 120
	powerEvery  = 20 * time.Millisecond
	busyBuffer  = 99
)

// A point is a sample in a buffer: a power in mW, or a utilisation in percent.
type point struct {
	at    time.Duration // time since the start
	value int
}

type buffers struct {
	random *rand.Rand
	// The samples are sorted from oldest to newest.
	watts, percents []point
	// means contains the mean power of each step in the last second, in mW.
	means []int
	// worked is the total busy time until now. The last utilisation sample was taken at sampledAt, when the total was
	// since.
	worked, since, sampledAt time.Duration
}

// buffer adds power and utilisation samples for the step that starts at from. It uses the power of the step, so
// [board.draw] must be called first. taken contains the utilisation samples of this step.
func (b *board) buffer(how Sampling, from time.Duration, loads []load, taken []sample) {
	if how.Power == 0 {
		return
	}
	if b.random == nil {
		b.random = rand.New(rand.NewPCG(5, uint64(b.index)))
	}
	b.means = lastOf(append(b.means, b.power), int(time.Second/step)+1)
	for t := powerEvery; t <= step; t += powerEvery {
		const noise = 1000 // mW
		value := b.averaged(how.Power, t, loads) + int(noise*b.random.NormFloat64())
		b.watts = lastOf(append(b.watts, point{from + t, value}), powerBuffer)
	}
	for _, s := range taken {
		worked := b.worked + (s.at-from)*time.Duration(b.busy)/100
		if took := s.at - b.sampledAt; took > 0 {
			percent := int(100 * (worked - b.since) / took)
			b.percents = lastOf(append(b.percents, point{s.at, percent}), busyBuffer)
		}
		b.since, b.sampledAt = worked, s.at
	}
	b.worked += step * time.Duration(b.busy) / 100
}

// averaged returns the mean power in mW over a period of length over, which ends at moment in this step. If the period
// is shorter than a step, the result is the floor plus the power of one load that runs at this moment.
func (b *board) averaged(over, moment time.Duration, loads []load) int {
	if over < step {
		watts, at := b.Floor, b.random.IntN(100)
		for _, l := range loads {
			if at -= l.percent; at < 0 {
				watts += l.watts
				break
			}
		}
		return watts * 1000
	}
	sum, left := 0, over
	for i := len(b.means) - 1; i >= 0 && left > 0; i-- {
		part := min(left, moment)
		sum += b.means[i] * int(part/time.Millisecond)
		left, moment = left-part, step
	}
	return sum / int((over-left)/time.Millisecond)
}

func lastOf[T any](values []T, n int) []T { return values[max(len(values)-n, 0):] }
