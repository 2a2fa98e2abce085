package blindness

import "time"

// These are the delays of readings. A page may be behind the truth by these times without an error of the
// exporter.
const (
	// tick is the interval of the exporter's readings.
	tick = time.Second
	// poll is the interval at which the exporter requests allocations and reads the prolog's files.
	poll = 10 * time.Second
	// around is the tolerance around a change that the driver reports. It includes the interval between
	// readings, the age of the counter (which the node refreshes every 0.2 s) and the delays of a busy machine.
	around = 2 * tick
	// settled is the delay of the books in quiet times.
	settled = 3 * tick
	// unsettled is the maximum time for which the ledger waits for owners and allocations before it settles an
	// interval.
	unsettled = 10 * time.Second
	// lateFor is the maximum delay of an energy counter.
	lateFor = 10 * time.Second
	// samples is the minimum number of the driver's samples in a second.
	samples = 6
	// retry is the maximum time before the exporter retries a lost GPU.
	retry = 10*time.Second + tick
	// expired is the time after which an allocation expires. This is three polls after the last
	// response.
	expired = 3 * poll
)

// slack returns the additional delay on a busy machine, as observed during the play.
func (p *Play) slack() time.Duration {
	late := p.late
	for i := range p.Shots {
		for g := range p.GPUs {
			if age, quiet := p.age(&p.Shots[i], g); quiet {
				late = max(late, age-2*tick)
			}
		}
	}
	return min(late, mostSlack)
}

// mostSlack is the maximum delay that is accepted from a busy machine. A longer delay is an error of the
// exporter.
const mostSlack = 8 * time.Second

// age returns the age of the last reading of a GPU, and whether the GPU has been readable for a while.
func (p *Play) age(s *Shot, g int) (age time.Duration, quiet bool) {
	at := s.Read[p.GPUs[g].UUID]
	if at.IsZero() {
		at = p.Began
	}
	hidden := p.hidden(hidesGPU|dropsEnergy|hidesBooks|hidesOwners, g)
	return s.At - at.Sub(p.Began), s.At > starting+poll && !hidden.wider(tick, retry+around).covers(s.At)
}

// rounding is the tolerance for sums of energy, in millijoules. It covers a time step of the simulated node
// at both ends of a span.
const rounding = 200_000
