package ledger

import (
	"cmp"
	"math"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A minute contains the mean power of a GPU in W and the busy share, 0 to 1.
type minute struct{ power, busy float64 }

// sums describes the current minute: its energy in J and its length in s. busy is the busy time in s according to
// samples of work, and utilized is the busy time in s according to the utilisation.
type sums struct{ energy, busy, utilized, took float64 }

// minutes estimates the idle power of a GPU for which no idle time was observed. It uses the last minutes in which
// processes had contexts. Shorter times would be too inaccurate, because energy counters and samples of work have
// coarse steps.
type minutes struct {
	past []minute // oldest first
	now  sums
	// idle is the estimate, or 0 before the first minute.
	idle gpu.Watts
}

// add also uses the GPU's utilisation, because samples of processes can miss work.
func (v *minutes) add(l load, limit gpu.Watts) {
	if !l.known || !l.open || limit <= 0 {
		return
	}
	now := &v.now
	now.energy, now.busy = now.energy+l.power*l.took, now.busy+l.busy*l.took
	now.utilized, now.took = now.utilized+l.utilization*l.took, now.took+l.took
	if now.took < periodLength.Seconds() {
		return
	}
	if len(v.past) == periods {
		v.past = slices.Delete(v.past, 0, 1)
	}
	v.past = append(v.past, minute{now.energy / now.took, max(now.busy, now.utilized) / now.took})
	*now = sums{}
	v.idle = gpu.Watts(quietest(v.past).idle(float64(limit)))
}

// quietest sorts the minutes by work. It returns the mean power and the mean busy share of the minutes with the least
// work: a fifth of all minutes, but at least one.
func quietest(all []minute) (mean minute) {
	sorted := slices.SortedFunc(slices.Values(all), func(a, b minute) int { return cmp.Compare(a.busy, b.busy) })
	n := 1 + int(lowShare*float64(len(sorted)-1))
	for _, m := range sorted[:n] {
		mean.power += m.power / float64(n)
		mean.busy += m.busy / float64(n)
	}
	return mean
}

// idle returns the expected idle power in W. The mean power of the minute is the idle power plus the busy share times
// the power of the work. The power of the work is unknown, but the sum of both powers is at most the limit. This sets a
// lower and an upper bound for the idle power. The bounds are close together if there is little work.
//
// Between the bounds, idle assumes two distributions. The idle power has a log-normal distribution around an eighth of
// the limit. The power of the work has an exponential distribution whose mean is the limit.
func (m minute) idle(limit float64) float64 {
	const (
		spread = 0.4 // standard deviation of the logarithm: for two of three GPUs, the idle power is within a factor of 1.5
		steps  = 100
	)
	least := max(0, (m.power-m.busy*limit)/(1-m.busy))
	if m.busy >= 1 || least >= m.power {
		return m.power
	}
	var sum, weights float64
	for i := range steps {
		idle := least + (m.power-least)*(float64(i)+0.5)/steps
		work := (m.power - idle) / m.busy
		z := math.Log(idle/(limit/8)) / spread
		weight := math.Exp(-z*z/2-work/limit) / idle
		sum, weights = sum+weight*idle, weights+weight
	}
	if weights == 0 { // all idle powers between the bounds are too unlikely
		return m.power
	}
	return sum / weights
}

// A kind identifies GPUs by model and power limit. GPUs of one kind have about the same idle power.
type kind struct {
	model string
	limit gpu.Watts
}

// peers describes the node's GPUs of one kind. open is the median of their measured idle powers. closed is the median
// of their powers in quiet times without contexts. An unknown median is 0.
type peers struct{ open, closed gpu.Watts }

func (l *Ledger) peers() map[kind]peers {
	open, closed := make(map[kind][]gpu.Watts), make(map[kind][]gpu.Watts)
	add := func(to map[kind][]gpu.Watts, k kind, power gpu.Watts) {
		if power > 0 && k.model != "" {
			to[k] = append(to[k], power)
		}
	}
	all := make(map[kind]peers)
	for _, b := range l.books {
		add(open, b.kind, b.IdlePower)
		add(closed, b.kind, b.meter.closed.power)
		all[b.kind] = peers{}
	}
	for k := range all {
		all[k] = peers{median(open[k]), median(closed[k])}
	}
	return all
}

func median(powers []gpu.Watts) gpu.Watts {
	if len(powers) == 0 {
		return 0
	}
	slices.Sort(powers)
	return (powers[(len(powers)-1)/2] + powers[len(powers)/2]) / 2
}

// idlePower returns the measured, configured or stored idle power, or the median of GPUs of the same kind. If these are
// all unknown, it returns the estimate from minutes with work, or an eighth of the power limit in the first minute. The
// estimate is at least the power without contexts, because contexts only add power. It is at most the lowest power with
// contexts.
func (b *book) idlePower(st *settlement) gpu.IdlePower {
	of := st.peers[b.kind]
	for _, p := range []gpu.IdlePower{
		{Power: b.IdlePower, Source: gpu.IdleMeasured},
		{Power: b.configured, Source: gpu.IdleConfigured},
		{Power: b.stored, Source: gpu.IdleStored},
		{Power: of.open, Source: gpu.IdlePeer},
	} {
		if p.Power > 0 {
			return p
		}
	}
	power := b.meter.minutes.idle
	if power == 0 {
		power = b.kind.limit / 8
	}
	power = max(power, b.meter.closed.power, of.closed)
	if lowest := b.meter.lowest; lowest > 0 {
		power = min(power, lowest)
	}
	return gpu.IdlePower{Power: power, Source: gpu.IdleLimit}
}

func (b *book) countEstimated(p *part) {
	if !p.estimated {
		return
	}
	b.Estimated += p.idle + p.busy
	for _, s := range p.allShares() {
		if s.owner.Kind.HasAccount() && !s.vanished {
			b.account(p.key(s.owner), p.from.At.Wall).Estimated += s.energy.Sum()
		}
	}
}
