package simnode

import (
	"math/rand/v2"
	"time"
)

// The driver's buffers of power and utilisation samples (nvmlDeviceGetSamples): powerBuffer samples of
// power, one in each powerEvery, and busyBuffer of utilisation, at the times of the ring.
const (
	powerBuffer = 120
	powerEvery  = 20 * time.Millisecond
	busyBuffer  = 99
)

// A point is a sample of a buffer, in mW or percent.
type point struct {
	at    time.Duration // since the start
	value int
}

// buffers has the buffers of a GPU.
type buffers struct {
	random *rand.Rand
	// watts and percents are the samples, oldest first.
	watts, percents []point
	// means has the power over the last second by step, in mW.
	means []int
}

// buffer adds the samples of a step that starts at a time, after the board drew its power. taken are the
// samples of the ring.
func (b *board) buffer(how Sampling, from time.Duration, loads []load, taken []sample) {
	if how.Power == 0 {
		return
	}
	if b.random == nil {
		b.random = rand.New(rand.NewPCG(5, uint64(b.index)))
	}
	b.means = lastOf(append(b.means, b.power), int(time.Second/step))
	for t := from + powerEvery; t <= from+step; t += powerEvery {
		const noise = 1000 // mW
		value := b.averaged(how.Power, loads) + int(noise*b.random.NormFloat64())
		b.watts = lastOf(append(b.watts, point{t, value}), powerBuffer)
	}
	for _, s := range taken {
		b.percents = lastOf(append(b.percents, point{s.at, s.busy}), busyBuffer)
	}
}

// averaged returns the power averaged over a time in mW. In less than a step one load runs, or
// none.
func (b *board) averaged(over time.Duration, loads []load) int {
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
	last := lastOf(b.means, int(over/step))
	sum := 0
	for _, mean := range last {
		sum += mean
	}
	return sum / len(last)
}

// lastOf returns the last values, at most n.
func lastOf[T any](values []T, n int) []T { return values[max(len(values)-n, 0):] }
