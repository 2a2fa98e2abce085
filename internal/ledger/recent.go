package ledger

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// recentWork contains the sampled busy time of each owner on a GPU, in seconds. Older work has less weight. Some
// drivers report short work only in the utilisation, so no sample names its process. The ledger uses recentWork to
// divide the energy of such work. It is not saved, because the ledger collects it again within seconds.
type recentWork map[gpu.Owner]float64

// memory is the time after which the weight of work has fallen to 1/e.
const memory = time.Minute

func (r recentWork) add(p *part) {
	if !p.signal && !p.weighted || p.gap {
		return
	}
	fade := math.Exp(-p.span().Len().Seconds() / memory.Seconds())
	for owner, busy := range r {
		if r[owner] = busy * fade; r[owner] < 0.001 {
			delete(r, owner)
		}
	}
	own, _ := p.activity()
	for i := range p.shares {
		if s := &p.shares[i]; p.signal && s.activity > s.served && !s.vanished {
			r[s.owner] += (s.activity - s.served).Seconds() * p.unseen(own)
		}
	}
}

// unseen returns the weight of sampled work. It is 1 unless the activity is weighted. If the GPU is busy for a share u
// of each interval, the driver reports no process in a share 1 − u of the intervals. Therefore each interval with a
// reported process represents (1 − u) / u more intervals with the same work but without a reported process.
func (p *part) unseen(own time.Duration) float64 {
	if !p.weighted {
		return 1
	}
	took := p.span().Len().Seconds()
	return max(0, took/own.Seconds()-1)
}

// byRecentWork returns an empty weighting unless the GPU was busy and no sample names a process.
func (p *part) byRecentWork(r recentWork) weighting {
	if !p.unnamed() && !p.missed() {
		return nil
	}
	var w weighting
	for i := range p.shares {
		s := &p.shares[i]
		if weight := uint64(math.Round(r[s.owner] * 1e9)); weight > 0 && !s.vanished {
			w.add(s, weight)
		}
	}
	return w
}

// missed reports whether the GPU was busy, but no process used it at the moment of the reading.
func (iv *interval) missed() bool {
	return iv.mig == nil && iv.weighted && !iv.signal && iv.measured && iv.utilization > 0
}

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
