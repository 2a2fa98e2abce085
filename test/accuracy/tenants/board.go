package tenants

import (
	"math"
	"math/rand/v2"
)

// A worker is a tenant in the simulation.
type worker struct {
	*Tenant
	index   int
	backlog float64 // waiting work in ms
	// ran is the worker's time on the GPU in this step, and recent is its time on the GPU since the
	// last sample, in milliseconds.
	ran, recent float64
	// work is the energy of its work since the start, and floor is the floor's energy while it ran, in
	// millijoules.
	work, floor float64
}

// A tally contains the energy of a tenant since the start, in millijoules, according to each definition.
type tally struct{ floorShared, userPays float64 }

// kept is the number of milliseconds for which a board keeps its history.
const kept = 1024

// A board is a GPU in the simulation.
type board struct {
	*GPU
	workers  []worker
	working  []*worker // workers that have a load
	replicas float64
	random   *rand.Rand
	now      int64 // ms since the start
	floor    float64
	// energy is the board's energy in millijoules, and counter is its value when the energy counter was last
	// updated.
	energy, counter float64
	// busy and power contain running sums for each millisecond, from which averages are computed.
	busy, power [kept]float64
	busySum     float64
	last        int     // worker that ran last; -1 before the first
	tail        float64 // additional power after work in W
	// floors is the energy of the floor since the start, and unused is the part of it that was used while no
	// worker ran.
	floors, unused float64
	ring
}

func newBoard(g *GPU, how Driver, seed uint64) *board {
	b := &board{GPU: g, random: rand.New(rand.NewPCG(seed, 1)), last: -1, ring: newRing(how)}
	b.workers = make([]worker, len(g.Tenants))
	for i := range g.Tenants {
		b.workers[i] = worker{Tenant: &g.Tenants[i], index: i}
		b.replicas += float64(g.Tenants[i].Replicas)
		if g.Tenants[i].Load != nil {
			b.working = append(b.working, &b.workers[i])
		}
	}
	return b
}

// warm updates the power that the board draws without work, which depends on the temperature.
func (b *board) warm() {
	b.floor = float64(b.Floor) * (1 + drift*math.Sin(2*math.Pi*float64(b.now)/driftPeriod))
}

// step advances the board by a millisecond.
func (b *board) step() {
	if b.now%tick.Milliseconds() == 0 {
		b.warm()
	}
	left := b.run()
	used := b.floor // in millijoules, because every step is a millisecond
	for _, w := range b.working {
		work := w.Watts * w.ran
		w.work += work
		w.floor += b.floor * w.ran
		used += work
	}
	used += b.afterwards(left)
	b.floors += b.floor
	b.unused += b.floor * left
	b.energy += used
	b.busySum += 1 - left
	b.now++
	b.busy[b.now%kept], b.power[b.now%kept] = b.busySum, b.energy
	if b.now%counterStep == 0 {
		b.counter = b.energy
	}
	b.sample(b)
}

// afterwards returns the additional energy after work in this step.
func (b *board) afterwards(left float64) float64 {
	switch {
	case b.Tail == 0:
		return 0
	case left < 1:
		b.tail = float64(b.Tail)
		return 0
	case b.last < 0:
		return 0
	}
	b.tail *= 1 - 1./tailTime
	b.workers[b.last].work += b.tail
	return b.tail
}

// run runs the waiting work for a millisecond. Each call starts with another worker. It returns the part of
// the millisecond in which no worker ran.
func (b *board) run() (left float64) {
	left = 1
	n := len(b.working)
	for i := range n {
		w := b.working[(int(b.now%int64(n))+i)%n]
		w.backlog += w.Load(b.now)
		w.ran = min(w.backlog, left)
		left -= w.ran
		w.backlog -= w.ran
		w.recent += w.ran
		if w.ran > 0 && (left == 1-w.ran || b.random.Float64()*(1-left) < w.ran) {
			b.last = w.index // if several workers ran in this step, each of them may be the last
		}
	}
	return max(left, 0)
}

// tallies returns the tally of each tenant.
func (b *board) tallies() []tally {
	all := make([]tally, len(b.workers))
	for i := range b.workers {
		w := &b.workers[i]
		held := float64(w.Replicas) / b.replicas
		all[i] = tally{w.work + held*b.floors, w.work + w.floor + held*b.unused}
	}
	return all
}

// busyOver returns the busy share of the given number of last milliseconds.
func (b *board) busyOver(ms int64) float64 {
	ms = min(ms, b.now)
	return (b.busySum - b.busy[(b.now-ms)%kept]) / float64(ms)
}

// powerOver returns the mean power of the given number of last milliseconds, in watts.
func (b *board) powerOver(ms int64) float64 {
	ms = min(ms, b.now)
	return (b.energy - b.power[(b.now-ms)%kept]) / float64(ms)
}
