package ledger

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// recentWork is the sampled busy time of each owner on a GPU in seconds, recent work with more weight. It divides the energy of work
// that no sample names: where the driver names no process while nothing runs, short work often shows in the utilisation only.
// It is not saved, because it is learned again within seconds.
type recentWork map[gpu.Owner]float64

// memory is the time after which the weight of work has fallen to 1/e.
const memory = time.Minute

// add adds the sampled work on a whole GPU in an interval.
func (r recentWork) add(p *part) {
	if !p.signal || p.gap {
		return
	}
	fade := math.Exp(-p.span().Len().Seconds() / memory.Seconds())
	for owner, busy := range r {
		if r[owner] = busy * fade; r[owner] < 0.001 {
			delete(r, owner)
		}
	}
	for i := range p.shares {
		if s := &p.shares[i]; s.activity > s.served && !s.vanished {
			r[s.owner] += (s.activity - s.served).Seconds()
		}
	}
}

// addVanished adds the work of vanished processes to the holders that are charged for them.
func (r recentWork) addVanished(list weighting, weights []uint64, work time.Duration) {
	for i, busy := range apportion(gpu.Millijoules(work), weights) {
		if busy > 0 {
			r[list[i].owner] += time.Duration(busy).Seconds()
		}
	}
}

// byRecentWork weights the owners with a process by their recent work.
func (p *part) byRecentWork(r recentWork) (w weighting) {
	for i := range p.shares {
		s := &p.shares[i]
		if weight := uint64(math.Round(r[s.owner] * 1e9)); weight > 0 && !s.vanished {
			w.add(s, weight)
		}
	}
	return w
}

const (
	// band is the part of the idle power by which the power of a GPU at rest varies.
	band = 0.03
	// slight is the largest busy share of an interval after which power without samples of work is unseen work. After more
	// work it is the end of a burst, and the samples of the burst already count for it.
	slight = 0.2
)

// unseenWork returns the energy above the idle power in an interval of a whole GPU without sampled work, 0 if there is none. It is
// charged by recent work. It is at most the energy that the recent busy share draws at the power limit, so that the owner of
// little work does not pay for a wrong idle power.
func (b *book) unseenWork(p *part, l load, idle gpu.Watts) gpu.Millijoules {
	if !p.signal || !l.quiet || b.meter.last.busy > slight {
		return 0
	}
	w := p.byRecentWork(b.recent)
	var busy float64
	for _, owner := range w {
		busy += float64(owner.weight) / 1e9
	}
	took := p.span().Len().Seconds()
	above := p.energy.Joules() - float64(idle)*took
	most := min(busy/memory.Seconds(), 1) * float64(b.kind.limit) * took
	if above <= band*float64(idle)*took || most == 0 {
		return 0
	}
	p.recent = w
	return gpu.Millijoules(math.Round(1000 * min(above, most)))
}

// unnamed reports whether the GPU was busy according to its utilisation, but no sample names a process.
func (iv *interval) unnamed() bool {
	if iv.mig != nil || !iv.signal || !iv.measured || iv.utilization == 0 {
		return false
	}
	for i := range iv.processes {
		if iv.processes[i].activity > 0 {
			return false
		}
	}
	return true
}
