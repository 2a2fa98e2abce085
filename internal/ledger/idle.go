package ledger

import (
	"math"
	"slices"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// load is what an interval tells of a GPU's power.
type load struct {
	power float64 // W, the mean
	// busy is the part of the time in which the GPU was busy, quiet is set if nothing was
	// seen to run at all. They mean something only if known is set.
	busy         float64
	quiet, known bool
	// open is set if some process had a context.
	open bool
}

// load returns what an interval tells.
func (iv *interval) load() load {
	l := load{open: len(iv.processes) > 0}
	if took := iv.span().Len().Seconds(); took > 0 {
		l.power = iv.energy.Joules() / took
	}
	l.busy, l.known = iv.busyShare()
	l.quiet = l.known && l.busy == 0 && !iv.busy
	return l
}

// busyShare returns the part of the time in which a GPU was busy: by the samples of its
// processes or instances, else by its own utilisation. It reports whether that is known.
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

// idleEnergy returns the part of an interval's energy that the GPU drew for being there: all
// of it if it was at rest, none if it is not known how busy it was, else its idle power over
// the time in which nothing ran.
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
	// quietIntervals is how many quiet intervals in a row make one measurement of the idle
	// power, which is their median: one of them may hold a kernel that no sample saw.
	quietIntervals = 5
	// inertia is by what part of the way a measurement moves what was learnt before, and
	// memory for how many intervals the guess remembers how busy the GPU was.
	inertia = 8
	memory  = 120
	// spread is the standard deviation of the busy share from which on power is held
	// against it.
	spread = 0.05
)

// An idleMeter learns what a GPU draws while contexts are open and nothing runs. What it
// learnt is the book's; the meter itself begins anew with the exporter.
type idleMeter struct {
	quiet []float64 // W, of the intervals that the next measurement is made of
	// last is the load before, which is not known at first and after a gap.
	last load
	// lowest is the lowest power of two intervals in a row.
	lowest float64
	// The sums over recent intervals, of which older ones weigh less: their number, busy
	// share and power, and the products of these.
	n, u, p, uu, up float64
}

// see takes in an interval and moves the idle power that is known, 0 if there is none yet.
// The first quiet interval after work does not count: power falls slowly.
func (m *idleMeter) see(l load, known gpu.Watts) gpu.Watts {
	if !l.known {
		m.last = load{}
		return known
	}
	if m.last.known {
		low := max(l.power, m.last.power)
		if m.lowest == 0 || low < m.lowest {
			m.lowest = low
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

// atRest reports whether nothing ran in an interval, as far as was seen: nor in the one
// before, so that it is not work which only few samples see.
func (m *idleMeter) atRest(l load) bool { return l.quiet && (m.last.quiet || !m.last.known) }

func (m *idleMeter) remember(l load) {
	const keep = 1 - 1.0/memory
	m.n = m.n*keep + 1
	m.u = m.u*keep + l.busy
	m.p = m.p*keep + l.power
	m.uu = m.uu*keep + l.busy*l.busy
	m.up = m.up*keep + l.busy*l.power
}

// guess returns an idle power to go by before it is learnt: the lowest power so far, but no
// more than an eighth of the GPU's limit, which is what GPUs draw at rest, than the mean power
// less the busy part of the time, and than where the line through power over busy share
// begins, if that is a power at all: under processes of different watts it need not be.
func (m *idleMeter) guess(limit gpu.Watts) gpu.Watts {
	if m.n == 0 {
		return 0
	}
	u, p := m.u/m.n, m.p/m.n
	least := min(m.lowest, p*(1-u))
	if limit > 0 {
		least = min(least, float64(limit)/8)
	}
	if variance := m.uu/m.n - u*u; variance > spread*spread {
		if begins := p - (m.up/m.n-u*p)/variance*u; begins > least/4 {
			least = min(least, begins)
		}
	}
	return gpu.Watts(least)
}
