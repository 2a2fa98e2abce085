package tenants

import "math"

// A sample contains the busy percentage since the previous sample, and the worker that ran at the time of the
// sample.
type sample struct {
	at      int64 // time since the start in ms
	worker  int   // -1 if the sample names no process
	pid     uint32
	percent float64
}

const serverPID = 1

type powerSample struct {
	at    int64
	watts float64
}

// A ring contains the samples that the driver took since the last observation.
type ring struct {
	how    Driver
	next   int64 // number of the next sample
	due    int64 // time of the next sample in ms
	period int64 // time since the last sample in ms
	taken  []sample
	powers []powerSample
}

func newRing(how Driver) ring {
	if how.PerSecond == 0 {
		how.PerSecond = 7.2
	}
	r := ring{how: how}
	r.advance()
	return r
}

func (r *ring) advance() {
	r.next++
	r.due = int64(float64(r.next) / r.how.PerSecond * 1000)
}

func (r *ring) sample(b *board) {
	r.period++
	if b.now >= r.due {
		s := sample{at: b.now, worker: r.named(b), percent: math.Round(100 * b.busyOver(r.period))}
		if s.worker >= 0 {
			s.pid = b.workers[s.worker].pidAt(b.now)
			if b.MPS == MPSServer {
				s.pid = serverPID
			}
		}
		r.taken = append(r.taken, s)
		r.advance()
		r.period = 0
		for _, w := range b.working {
			w.recent = 0
		}
	}
	if r.how.Power > 0 && b.now%powerStep == 0 {
		watts := b.powerOver(r.how.Power.Milliseconds()) + noise*b.random.NormFloat64()
		r.powers = append(r.powers, powerSample{b.now, watts})
	}
}

// named returns -1 if a sample names no worker.
func (r *ring) named(b *board) int {
	ran := func(w *worker) float64 { return w.ran }
	recent := func(w *worker) float64 { return w.recent }
	if i := b.pick(ran, b.random.Float64()*b.overlap()); i >= 0 {
		return i
	}
	switch r.how.Names {
	case NamesLast:
		return b.last
	case NamesActive:
		sum := 0.0
		for _, w := range b.working {
			sum += w.recent
		}
		if i := b.pick(recent, b.random.Float64()*sum); i >= 0 {
			return i
		}
		return int(r.next) % len(b.workers)
	}
	return -1
}

// overlap returns the sum of all workers' times in this step, divided by the time in which at least one of them ran. It
// is 1 if only one worker runs at a time.
func (b *board) overlap() float64 {
	sum, busy := 0., 0.
	for _, w := range b.working {
		sum, busy = sum+w.ran, busy+w.pays
	}
	if b.MPS == NoMPS || busy == 0 {
		return 1
	}
	return sum / busy
}

// pick returns the worker at which the cumulative sum of the workers' amounts exceeds point. It returns -1 if the total
// is smaller.
func (b *board) pick(amount func(*worker) float64, point float64) int {
	for _, w := range b.working {
		if point -= amount(w); point < 0 {
			return w.index
		}
	}
	return -1
}

func (r *ring) drain() (taken []sample, powers []powerSample) {
	taken, powers = r.taken, r.powers
	r.taken, r.powers = nil, nil
	return taken, powers
}
