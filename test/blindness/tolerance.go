package blindness

import "time"

// A page may lag behind the truth by these times.
const (
	// tick is the interval of the exporter's readings.
	tick = time.Second
	// poll is the interval at which the exporter requests allocations and reads the prolog's files.
	poll = 10 * time.Second
	// around is the tolerance around a change that the driver reports. It includes the interval between readings, the
	// age of the counter (which the node refreshes every 0.2 s) and the delays of a busy machine.
	around = 2 * tick
	// settled is the delay of the counters if nothing changes.
	settled = 3 * tick
	// unsettled is the maximum time for which the ledger waits for owners and allocations before it charges an
	// interval.
	unsettled = 10 * time.Second
	// lateFor is the maximum delay of an energy counter.
	lateFor = 10 * time.Second
	// samples is the minimum number of samples that the driver takes per second.
	samples = 6
	// retry is the maximum delay until the exporter reads a lost GPU again.
	retry = 10*time.Second + tick
	// An allocation expires three polls after the kubelet's last response.
	expired = 3 * poll
)

// slack returns the additional delay of a busy machine during the play.
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

// mostSlack is the maximum delay that a busy machine may cause. A longer delay is an error of the exporter.
const mostSlack = 8 * time.Second

// age returns the time since the last reading of a GPU. quiet reports whether the GPU has been readable for a while.
func (p *Play) age(s *Shot, g int) (age time.Duration, quiet bool) {
	at := s.Read[p.GPUs[g].UUID]
	if at.IsZero() {
		at = p.Began
	}
	hidden := p.hidden(hidesGPU|dropsEnergy|hidesBooks|hidesOwners, g)
	return s.At - at.Sub(p.Began), s.At > starting+poll && !hidden.wider(tick, retry+around).covers(s.At)
}

// rounding is the tolerance for sums of energy, in millijoules. It covers a time step of the simulated node at both
// ends of a span.
const rounding = 200_000
