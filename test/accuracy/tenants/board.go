package tenants

import (
	"math"
	"math/rand/v2"
)

type worker struct {
	*Tenant
	index   int
	backlog float64 // waiting work in ms
	// ran is the worker's time on the GPU in this step. recent is its time on the GPU since the last sample. Both are
	// in milliseconds. pays is the worker's part of the step's busy time.
	ran, recent, pays float64
	// work is the energy of the worker's work since the start. floor is the energy of the floor while the worker ran.
	// Both are in millijoules.
	work, floor float64
}

type tally struct{ floorShared, userPays float64 }

// kept is the number of milliseconds for which a board keeps its history.
const kept = 1024

type board struct {
	*GPU
	workers []worker
	working []*worker // the workers with a load
	slots   []slot
	random  *rand.Rand
	now     int64 // ms since the start
	floor   float64
	// energy is the board's energy in millijoules. counter is the energy at the last update of the energy counter.
	energy, counter float64
	// busy and power contain cumulative sums for each millisecond, from which averages are calculated.
	busy, power [kept]float64
	busySum     float64
	last        int     // index of the worker that ran last; -1 before any worker ran
	tail        float64 // additional power after work in W
	// floors is the energy of the floor since the start.
	floors    float64
	occupancy occupancy
	ring
}

// A slot is a MIG instance or a whole GPU.
type slot struct {
	part     float64   // the slot's part of the GPU
	working  []*worker // workers that have a load
	replicas float64
	// unused is the energy of the slot's floor while no worker ran.
	unused float64
	// active is the time with work since the start, in milliseconds. counted is the value of active at the last update
	// of GPM.
	active, counted float64
}

func newSlots(g *GPU) []slot {
	if g.Slices == nil {
		return []slot{{part: 1}}
	}
	all := 0
	for _, n := range g.Slices {
		all += n
	}
	slots := make([]slot, len(g.Slices))
	for i, n := range g.Slices {
		slots[i].part = float64(n) / float64(all)
	}
	return slots
}

func newBoard(g *GPU, how Driver, seed uint64) *board {
	b := &board{GPU: g, random: rand.New(rand.NewPCG(seed, 1)), last: -1, ring: newRing(how), slots: newSlots(g)}
	b.workers = make([]worker, len(g.Tenants))
	for i := range g.Tenants {
		b.workers[i] = worker{Tenant: &g.Tenants[i], index: i}
		s := &b.slots[g.Tenants[i].Instance]
		s.replicas += float64(g.Tenants[i].Replicas)
		if g.Tenants[i].Load != nil {
			b.working = append(b.working, &b.workers[i])
			s.working = append(s.working, &b.workers[i])
		}
	}
	return b
}

// The power that a board draws without work depends on its temperature.
func (b *board) warm() {
	b.floor = float64(b.Floor) * (1 + drift*math.Sin(2*math.Pi*float64(b.now)/driftPeriod))
}

func (b *board) step() {
	if b.now%tick.Milliseconds() == 0 {
		b.warm()
	}
	left, used := 1., b.floor // in millijoules, because every step is a millisecond
	for i := range b.slots {
		s := &b.slots[i]
		rest := b.run(s)
		for _, w := range s.working {
			work := w.Watts * w.ran
			w.work += work
			w.floor += b.floor * s.part * w.pays
			used += work
		}
		s.unused += b.floor * s.part * rest
		s.active += 1 - rest
		if b.now%gpmStep == gpmOffset || b.AMD != NoAMD {
			s.counted = s.active
		}
		left = min(left, rest)
	}
	used += b.afterwards(left)
	b.floors += b.floor
	b.energy += used
	b.busySum += 1 - left
	b.now++
	b.busy[b.now%kept], b.power[b.now%kept] = b.busySum, b.energy
	if b.now%counterStep == 0 || b.AMD != NoAMD {
		b.counter = b.energy
	}
	b.sample(b)
	b.look()
}

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

// run runs the waiting work of a slot for a millisecond. Each call starts with another worker. left is the part of the
// millisecond in which no worker ran.
func (b *board) run(s *slot) (left float64) {
	if b.MPS != NoMPS || b.isWholeAMD() {
		return b.runTogether(s)
	}
	left = 1
	n := len(s.working)
	for i := range n {
		w := s.working[(int(b.now)+i)%n]
		w.backlog += w.Load(b.now)
		w.ran = min(w.backlog, left)
		w.pays = w.ran
		left -= w.ran
		w.backlog -= w.ran
		w.recent += w.ran
		if w.ran > 0 && (left == 1-w.ran || b.random.Float64()*(1-left) < w.ran) {
			b.last = w.index // if several workers ran in this step, each of them may be the last
		}
	}
	return max(left, 0)
}

// runTogether is [board.run] for clients of an MPS server and for processes of a whole AMD GPU. They do not wait for
// each other. If several of them run at the same time, they divide the busy time in proportion to their work.
func (b *board) runTogether(s *slot) (left float64) {
	left = 1
	sum := 0.
	for _, w := range s.working {
		w.backlog += w.Load(b.now)
		w.ran = min(w.backlog, 1)
		left *= 1 - w.ran
		w.backlog -= w.ran
		w.recent += w.ran
		if sum += w.ran; w.ran > 0 && b.random.Float64()*sum < w.ran {
			b.last = w.index
		}
	}
	for _, w := range s.working {
		if w.pays = 0; sum > 0 {
			w.pays = (1 - left) * w.ran / sum
		}
	}
	return left
}

func (b *board) tallies() []tally {
	all := make([]tally, len(b.workers))
	for i := range b.workers {
		w := &b.workers[i]
		s := &b.slots[w.Instance]
		held := float64(w.Replicas) / s.replicas
		all[i] = tally{w.work + held*s.part*b.floors, w.work + w.floor + held*s.unused}
	}
	return all
}

func (b *board) busyOver(ms int64) float64 {
	ms = min(ms, b.now)
	return (b.busySum - b.busy[(b.now-ms)%kept]) / float64(ms)
}

func (b *board) powerOver(ms int64) float64 {
	ms = min(ms, b.now)
	return (b.energy - b.power[(b.now-ms)%kept]) / float64(ms)
}
