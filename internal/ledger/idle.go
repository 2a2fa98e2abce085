package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type load struct {
	power float64 // mean power over the interval in W
	took  float64 // length of the interval in s
	// busy is the busy share of the interval, 0 to 1. quiet is set if no work was sampled. Both fields are valid only
	// if known is set.
	busy         float64
	quiet, known bool
	// utilization is the utilisation that the driver reports, 0 to 1, or 0 if unknown.
	utilization float64
	// open is set if processes had contexts at both ends of the interval. closed is set if no process had a context.
	// Both fields are unset if the first context was opened or the last one was closed in the interval.
	open, closed bool
	// gaps is the GPU's power in quiet times, according to power samples. It is 0 if there was no quiet time. sampled
	// is set if the samples show every quiet time.
	gaps    gpu.Watts
	sampled bool
	// end of the interval (boot clock)
	at time.Duration
}

func (iv *interval) load() load {
	l := load{open: len(iv.from.Processes) > 0 && len(iv.to.Processes) > 0, closed: len(iv.processes) == 0, gaps: iv.quietPower, sampled: iv.quietSampled, at: iv.to.At.Boot}
	if l.took = iv.span().Len().Seconds(); l.took > 0 {
		l.power = iv.energy.Joules() / l.took
	}
	l.busy, l.known = iv.busyShare()
	l.quiet = l.known && l.busy == 0 && !iv.busy
	l.utilization, _ = iv.meanUtilization()
	return l
}

// busyShare returns the busy share of the interval, 0 to 1. In MIG mode it uses the activity of the instances. For a
// whole GPU it uses the samples of processes. If no sample names a process, it uses the utilisation of the GPU.
func (iv *interval) busyShare() (float64, bool) {
	took := float64(iv.span().Len())
	switch {
	case iv.gap || took <= 0:
		return 0, false
	case iv.mig != nil && iv.divided:
		var busy, all uint64
		for k, w := range sliceWeights(iv.mig) {
			all += w
			if k < len(iv.mig.Instances) {
				busy += w * uint64(min(iv.instances[iv.mig.Instances[k].ID], iv.span().Len()))
			}
		}
		return float64(busy) / (float64(all) * took), true
	case iv.mig != nil:
		return 0, false
	case iv.signal && !iv.unnamed():
		var busy float64
		for i := range iv.processes {
			busy += float64(iv.processes[i].activity)
		}
		return min(busy/took, 1), true
	}
	return iv.meanUtilization()
}

// mostBusy returns the largest possible busy share. It adds the busy times of the instances as if they had worked one
// after another, because one instance alone may draw the power limit of the GPU. The result stays below 1, because at 1
// the whole power would count as idle power.
func (iv *interval) mostBusy() float64 {
	const most = 0.99
	var busy time.Duration
	for _, i := range iv.mig.Instances {
		busy += iv.instances[i.ID]
	}
	return min(most, float64(busy)/float64(iv.span().Len()))
}

func (iv *interval) meanUtilization() (float64, bool) {
	if !iv.measured || iv.looks == 0 {
		return 0, false
	}
	return min(iv.utilization/float64(iv.looks), 1), true
}

// If the GPU is at rest, all energy is idle energy. If the busy share is unknown, the idle energy is 0.
func (l load) idleEnergy(iv *interval, atRest bool, power gpu.Watts) gpu.Millijoules {
	switch {
	case !l.known:
		return 0
	case atRest:
		return iv.energy
	}
	return min(iv.energy, gpu.Millijoules(math.Round(float64(power)*(1-l.busy)*iv.span().Len().Seconds()*1000)))
}

// A GPU is at rest only after two quiet intervals, because the samples may miss short work in one quiet interval.
func (m *idleMeter) atRest(l load) bool { return l.quiet && (m.last.quiet || !m.last.known) }

// dividesBy reports whether the division of the energy depends on the idle power. It does not if all energy is idle
// (the GPU is at rest) or if all energy is busy (there is no idle time).
func (m *idleMeter) dividesBy(l load) bool { return l.known && l.busy < 1 && !m.atRest(l) }

const (
	// The idle power is this quantile of the measured powers. A minimum could be an outlier. A median would include
	// short work that the samples missed.
	lowShare = 0.2
	// Measured powers are grouped into periods. A period lasts at least periodLength. It contains at least minPowers
	// and at most maxPowers powers. The idle power is a quantile over the last periods.
	periodLength = time.Minute
	minPowers    = 3
	maxPowers    = 60
	periods      = 60
	carried      = periods / 4 // weight of a restored idle power, in periods
)

// An idleMeter learns the idle power of a GPU. Only the learned power is saved.
type idleMeter struct {
	// last is the load of the previous interval. It is unknown at first and after a gap.
	last load
	// open is the power in quiet times with contexts. closed is the power in quiet times without contexts.
	open, closed level
	// lowest is the lowest power with contexts, or 0 if there is none. Of two consecutive intervals, it uses the higher
	// power.
	lowest  gpu.Watts
	minutes minutes
}

// learn adds an interval and returns the new idle power, or 0 if it is unknown. If the driver provides power samples,
// learn uses only the quiet times in these samples, because samples of processes can miss work. Otherwise it uses quiet
// intervals, but not the first quiet interval after work, because power falls slowly.
func (m *idleMeter) learn(l load, known gpu.Watts) gpu.Watts {
	last := m.last
	if m.last = l; !l.known {
		return known
	}
	if low := gpu.Watts(max(l.power, last.power)); l.open && last.open && last.known && (m.lowest == 0 || low < m.lowest) {
		m.lowest = low
	}
	if known > 0 && m.open.isEmpty() {
		m.open.restore(known)
	}
	level := &m.open
	if l.closed {
		level = &m.closed
	}
	switch {
	case !l.open && !l.closed:
	case l.gaps > 0:
		level.add(float64(l.gaps), l.at)
	case l.quiet && last.quiet && l.open == last.open && l.closed == last.closed && !l.sampled:
		level.add(l.power, l.at)
	}
	return m.open.power
}

// A level is the power of a GPU in quiet times. Each period contributes a low quantile of its powers. The level is a
// low quantile of these values. It follows a change of the hardware after at most an hour of quiet times. A few minutes
// of unusual power do not change it.
type level struct {
	now   []float64 // powers in the current period in W
	since time.Duration
	past  []float64 // low quantile of each earlier period in W, oldest first
	power gpu.Watts // 0 while it is unknown
}

func (v *level) isEmpty() bool { return len(v.now)+len(v.past) == 0 }

func (v *level) restore(power gpu.Watts) {
	v.past, v.power = slices.Repeat([]float64{float64(power)}, carried), power
}

// add adds the power of a quiet time that ended at the given time on the boot clock.
func (v *level) add(power float64, at time.Duration) {
	if len(v.now) >= minPowers && at-v.since >= periodLength {
		if len(v.past) == periods {
			v.past = slices.Delete(v.past, 0, 1)
		}
		v.past = append(v.past, lowOf(v.now))
		v.now = v.now[:0]
	}
	if len(v.now) == 0 {
		v.since = at
	}
	if len(v.now) < maxPowers {
		v.now = append(v.now, power)
	}
	all := v.past
	if len(v.now) >= minPowers {
		all = append(slices.Clone(all), lowOf(v.now))
	}
	if len(all) > 0 {
		v.power = gpu.Watts(lowOf(all))
	}
}

func lowOf(powers []float64) float64 {
	sorted := slices.Sorted(slices.Values(powers))
	return sorted[int(math.Round(lowShare*float64(len(sorted)-1)))]
}

// isDivided reports whether the charges for the part depend on the idle power. They do if several owners pay different
// parts of the idle and the busy energy. In MIG mode, they do if the activity of the instances is known.
func (p *part) isDivided() bool {
	if p.mig != nil {
		return p.divided && p.method == gpu.Shared
	}
	own, served := p.activity()
	return (own+served > 0 || len(p.recent) > 0) && p.sole() == nil
}
