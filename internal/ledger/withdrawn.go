package ledger

import "github.com/gpuledger/gpuledger/internal/gpu"

// summed is the counter name of an integral of power. Each exporter process starts its integral at 0.
const summed = string(gpu.EnergyPower)

// Former is a counter that the board no longer provides. Until the counter returns, the energy is an integral of power.
type Former struct {
	Counter string `json:"counter"`
	// Energy is the value of the counter at its last reading, and At is the time of this reading. Counted is the energy
	// that the ledger has counted since At.
	Energy  gpu.Millijoules `json:"energy"`
	At      gpu.Instant     `json:"at"`
	Counted gpu.Millijoules `json:"counted"`
}

// growth returns the energy between two marks, and whether it is known. The values of two different counters cannot be
// subtracted, so growth then uses the integral of power. The exporter also integrates power while the board provides a
// counter. If a former counter has returned, its value also contains the energy of the time in which it was missing.
func growth(a, b *Mark) (energy gpu.Millijoules, known bool) {
	switch f := a.Former; {
	case sameCounter(a, b):
		return b.Energy - a.Energy, true
	case (a.Counter == summed || b.Counter == summed) && a.sum != nil && b.sum != nil:
		return *b.sum - *a.sum, true
	case f != nil && f.Counter == b.Counter:
		return b.Energy - f.Energy - f.Counted, true
	}
	return 0, false
}

// A counter without a name matches any counter.
func sameCounter(a, b *Mark) bool {
	return a.Counter == b.Counter || a.Counter == "" || b.Counter == ""
}

// withdrawn returns the counter that is missing at the new mark m, or nil if none is missing. At the first mark after
// the counter has returned, withdrawn still returns it, because only the next mark can confirm the return.
func (b *book) withdrawn(m *Mark, energy gpu.Millijoules) *Former {
	f, last := b.last.Former, b.last
	switch {
	case m.Counter != summed && (f == nil || f.Counter != m.Counter):
		return nil
	case f != nil:
		return f.add(energy)
	case last.Counter != summed && last.Counter != "":
		return &Former{Counter: last.Counter, Energy: last.Energy, At: last.At, Counted: energy}
	}
	return nil
}

// add returns a copy, because several marks share f.
func (f *Former) add(energy gpu.Millijoules) *Former {
	if f == nil {
		return nil
	}
	next := *f
	next.Counted += energy
	return &next
}

// returned reports whether the new mark m confirms that a withdrawn counter has returned.
func (b *book) returned(m *Mark) bool {
	f := b.last.Former
	return f != nil && b.still == nil && f.Counter == m.Counter && f.Counter == b.last.Counter
}

// missed compares the energy that a returned counter has counted with the energy that the ledger has counted. It
// returns an interval with the difference, or nil if the ledger misses no energy. A stopped exporter cannot integrate
// power, so this energy is missing after a stop. The users of the GPU at that time are unknown.
func (b *book) missed(m *Mark) *interval {
	f, last := b.last.Former, b.last
	from := Mark{At: f.At, Energy: f.Energy, Counter: f.Counter}
	missed := last.Energy - f.Energy - f.Counted
	if missed <= 0 || !plausible(&from, last, b.maxPower, 0) {
		return nil
	}
	return &interval{
		from: from, to: *m, energy: b.ownShare(missed, m.share), window: b.since.end(*m),
		gap: true, timeless: true,
	}
}
