package ledger

import (
	"math"
	"slices"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// load describes the power and the use of a GPU over an interval.
type load struct {
	power float64 // mean power over the interval in W
	took  float64 // length of the interval in s
	// busy is the busy share of the interval, 0 to 1. quiet is set if no work was sampled. busy and quiet are valid only
	// if known is set.
	busy         float64
	quiet, known bool
	// utilization is the GPU's own busy share, 0 to 1, or 0 if it is unknown.
	utilization float64
	// open is set if processes had contexts at the start and at the end of the interval. closed is set
	// if no process had a context. Neither is set if the first context was opened or the last context
	// was closed in the interval.
	open, closed bool
	// gaps is the power in quiet times according to power samples. It is 0 if there was no quiet time. sampled is set if
	// power samples show every quiet time.
	gaps    gpu.Watts
	sampled bool
	// at is the end of the interval (boot clock).
	at time.Duration
}

// load returns the load of the interval.
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

// busyShare returns the busy share of the interval, 0 to 1, and whether it is known. In MIG mode it uses the activity
// of the instances. On a whole GPU it uses the samples of processes. If there are no samples, or if no sample names a
// process, it uses the utilisation of the GPU.
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

// mostBusy returns the share of the interval in which any MIG instance worked, under the assumption that all
// instances worked at different times. This is the largest possible share. It is used because one instance may draw
// as much power as the limit of the GPU. The result is always below 1. If the result were 1, the whole power of the
// GPU would count as idle power.
func (iv *interval) mostBusy() float64 {
	const most = 0.99
	var busy time.Duration
	for _, i := range iv.mig.Instances {
		busy += iv.instances[i.ID]
	}
	return min(most, float64(busy)/float64(iv.span().Len()))
}

// meanUtilization returns the mean utilisation of the GPU, 0 to 1, and whether it is known.
func (iv *interval) meanUtilization() (float64, bool) {
	if !iv.measured || iv.looks == 0 {
		return 0, false
	}
	return min(iv.utilization/float64(iv.looks), 1), true
}

// idleEnergy returns the idle part of the interval's energy. At rest, all energy is idle. If the busy share is unknown,
// the idle part is 0. Otherwise it is the idle power times the idle time.
func (l load) idleEnergy(iv *interval, atRest bool, power gpu.Watts) gpu.Millijoules {
	switch {
	case !l.known:
		return 0
	case atRest:
		return iv.energy
	}
	return min(iv.energy, gpu.Millijoules(math.Round(float64(power)*(1-l.busy)*iv.span().Len().Seconds()*1000)))
}

// atRest reports whether this interval and the previous one were quiet. A single quiet interval may
// contain short work that the samples missed.
func (m *idleMeter) atRest(l load) bool { return l.quiet && (m.last.quiet || !m.last.known) }

// dividesBy reports whether the idle power is used to divide the energy of the interval into an idle and a busy
// part. At rest, the idle power is not used, because all energy is idle. Without idle time, it is not used either,
// because all energy is busy.
func (m *idleMeter) dividesBy(l load) bool { return l.known && l.busy < 1 && !m.atRest(l) }

const (
	// The idle power is the quantile lowShare of the measured powers. A minimum could be an outlier, and a median would
	// include short work that the samples missed.
	lowShare = 0.2
	// Powers are collected in periods. A period lasts for periodLength and contains minPowers to maxPowers powers. The
	// idle power is a quantile over the last periods.
	periodLength = time.Minute
	minPowers    = 3
	maxPowers    = 60
	periods      = 60
	carried      = periods / 4 // a restored idle power counts as this number of periods
)

// An idleMeter learns the idle power of a GPU. The book stores the learned power. The state of the meter itself is lost
// at a restart.
type idleMeter struct {
	// last is the load of the previous interval; it is unknown at first and after a gap.
	last load
	// open is the quiet power with contexts, and closed is the quiet power without contexts.
	open, closed level
	// For each two consecutive intervals with contexts, lowest uses the higher of their powers. lowest is the minimum of
	// these powers, or 0 if there are none yet.
	lowest gpu.Watts
	// minutes estimates the power with contexts.
	minutes minutes
}

// learn adds an interval and returns the updated idle power; 0 means unknown. If there are power samples, learn uses
// only the quiet times in these samples, because the samples of processes can miss work. Without power samples, learn
// uses quiet intervals. It skips the first quiet interval after work, because power falls slowly.
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

// A level is the power of a GPU in quiet times. It is a low quantile over the last periods, and the value of each
// period is a low quantile of the powers in the period. A change of the hardware therefore changes the level after at
// most an hour of quiet times. A few minutes of unusual power do not change the level.
type level struct {
	now   []float64 // powers in the current period in W
	since time.Duration
	past  []float64 // low quantiles of the earlier periods in W, oldest first
	power gpu.Watts // the quantile, or 0 while it is unknown
}

func (v *level) isEmpty() bool { return len(v.now)+len(v.past) == 0 }

// restore sets a power that was measured earlier.
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

// lowOf returns the low quantile of powers.
func lowOf(powers []float64) float64 {
	sorted := slices.Sorted(slices.Values(powers))
	return sorted[int(math.Round(lowShare*float64(len(sorted)-1)))]
}

// isDivided reports whether the charges for the part depend on the idle power, because several
// owners are charged differently for idle and busy time. In MIG mode all parts depend on the idle
// power if the activity of the instances is known.
func (p *part) isDivided() bool {
	if p.mig != nil {
		return p.divided && p.method == gpu.Shared
	}
	own, served := p.activity()
	return (own+served > 0 || len(p.recent) > 0) && p.sole() == nil
}
