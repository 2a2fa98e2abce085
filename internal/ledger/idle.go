package ledger

import (
	"math"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// load is the power and the use of a GPU over an interval.
type load struct {
	power float64 // W, the mean
	// busy is the busy share of the interval, 0 to 1; quiet is set if no work was sampled. Both
	// require known.
	busy         float64
	quiet, known bool
	// open is set if a process had a context.
	open bool
}

// load returns the load of the interval.
func (iv *interval) load() load {
	l := load{open: len(iv.processes) > 0}
	if took := iv.span().Len().Seconds(); took > 0 {
		l.power = iv.energy.Joules() / took
	}
	l.busy, l.known = iv.busyShare()
	l.quiet = l.known && l.busy == 0 && !iv.busy
	return l
}

// busyShare returns the busy share of the interval, 0 to 1, and whether it is known. The
// samples of processes or instances take precedence over the GPU's utilisation.
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
	case iv.signal:
		var busy float64
		for i := range iv.processes {
			busy += float64(iv.processes[i].activity)
		}
		return min(busy/took, 1), true
	case iv.measured && iv.looks > 0:
		return min(iv.utilization/float64(iv.looks), 1), true
	}
	return 0, false
}

// idleEnergy returns the idle part of the interval's energy: all of it at rest, 0 if the
// busy share is unknown, else the idle power times the idle time.
func (l load) idleEnergy(iv *interval, atRest bool, power gpu.Watts) gpu.Millijoules {
	switch {
	case !l.known:
		return 0
	case atRest:
		return iv.energy
	}
	return min(iv.energy, gpu.Millijoules(math.Round(float64(power)*(1-l.busy)*iv.span().Len().Seconds()*1000)))
}

const (
	// quietIntervals is the number of consecutive quiet intervals in a measurement. Their
	// median is used, because samples miss short kernels.
	quietIntervals = 5
	// A measurement moves the idle power by 1/inertia of the difference. The estimate
	// averages over about memory intervals.
	inertia = 8
	memory  = 120
	// spread is the least standard deviation of the busy share for a regression of power.
	spread = 0.05
)

// An idleMeter learns the idle power of a GPU with open contexts. The book stores the
// result; the meter's own state is lost at a restart.
type idleMeter struct {
	quiet []float64 // W, power of the consecutive quiet intervals so far
	// last is the previous load; unknown at first and after a gap.
	last load
	// lowest is the lowest power of two intervals in a row, resting the lowest of two quiet ones, with
	// or without contexts; 0 before the first.
	lowest, resting float64
	// Exponentially weighted sums over the intervals: count, busy share u, power p and their
	// products.
	n, u, p, uu, up float64
}

// learn adds an interval and returns the updated idle power; 0 means unknown. The first quiet
// interval after work is ignored, because power falls slowly.
func (m *idleMeter) learn(l load, known gpu.Watts) gpu.Watts {
	if !l.known {
		m.last = load{}
		return known
	}
	if m.last.known {
		low := max(l.power, m.last.power)
		if m.lowest == 0 || low < m.lowest {
			m.lowest = low
		}
		if l.quiet && m.last.quiet && (m.resting == 0 || low < m.resting) {
			m.resting = low
		}
	}
	m.remember(l)
	switch {
	case !l.quiet || !l.open:
		m.quiet = m.quiet[:0]
	case m.last.quiet && m.last.open:
		m.quiet = append(m.quiet, l.power)
	}
	m.last = l
	if len(m.quiet) < quietIntervals {
		return known
	}
	slices.Sort(m.quiet)
	median := gpu.Watts(m.quiet[quietIntervals/2])
	m.quiet = m.quiet[:0]
	if known == 0 {
		return median
	}
	return known + (median-known)/inertia
}

// atRest reports whether this interval and the previous one were quiet. A single quiet
// interval may have short work that samples missed.
func (m *idleMeter) atRest(l load) bool { return l.quiet && (m.last.quiet || !m.last.known) }

func (m *idleMeter) remember(l load) {
	const keep = 1 - 1.0/memory
	m.n = m.n*keep + 1
	m.u = m.u*keep + l.busy
	m.p = m.p*keep + l.power
	m.uu = m.uu*keep + l.busy*l.busy
	m.up = m.up*keep + l.busy*l.power
}

// guess estimates the idle power before it is learned. It returns the least of: the lowest
// power of two consecutive intervals, the mean power times the mean idle share, the power that
// the peers or the power limit suggest, and the intercept of a regression of power on busy share.
// An intercept below a quarter of the others is ignored: processes with different power cause it.
func (m *idleMeter) guess(limit gpu.Watts, of peers) gpu.Watts {
	if m.n == 0 {
		return 0
	}
	u, p := m.u/m.n, m.p/m.n
	least := min(m.lowest, p*(1-u))
	if usual := of.idlePower(limit); usual > 0 {
		least = min(least, float64(usual))
	}
	if variance := m.uu/m.n - u*u; variance > spread*spread {
		if begins := p - (m.up/m.n-u*p)/variance*u; begins > least/4 {
			least = min(least, begins)
		}
	}
	return gpu.Watts(least)
}

// peers has what is known of the idle power of a node's GPUs of one model: the least learned power,
// and the least power of a GPU at rest, with or without contexts. 0 means unknown.
type peers struct{ learned, resting gpu.Watts }

// peersByModel returns the peers of each model.
func (l *Ledger) peersByModel() map[string]peers {
	least := func(a, b gpu.Watts) gpu.Watts {
		if a == 0 || b > 0 && b < a {
			return b
		}
		return a
	}
	all := make(map[string]peers)
	for _, b := range l.books {
		if p := all[b.model]; b.model != "" {
			all[b.model] = peers{least(p.learned, b.IdlePower), least(p.resting, gpu.Watts(b.meter.resting))}
		}
	}
	return all
}

// idlePower returns the idle power that is usual for the model; without a learned power an eighth of
// the power limit, or the power of a GPU at rest if that is higher. Without contexts a GPU may draw
// less.
func (p peers) idlePower(limit gpu.Watts) gpu.Watts {
	if p.learned > 0 {
		return p.learned
	}
	return max(limit/8, p.resting)
}
