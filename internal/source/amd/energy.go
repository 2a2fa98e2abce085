package amd

import (
	"math"
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// A meter selects the source of a GPU's energy. It always integrates power, so that the ledger can continue if the
// source changes.
type meter struct {
	kind gpu.EnergySource
	// missed is the number of successive readings without a counter. found is the number of successive readings with a
	// counter.
	missed, found int
	integral      gpu.PowerIntegral
}

// patience is the number of successive readings without a counter after which the meter uses the integral of power.
// After as many readings with a counter, it uses the counter again.
const patience = 3

// read returns the energy and the integral of power; nil means unknown. power is in W; a negative value means unknown.
// tick is the usual interval between two readings, or 0. If definite is set, gpu_metrics was read, so a missing counter
// means that the GPU has no counter.
func (m *meter) read(counter value, power float64, definite bool, at gpu.Instant, tick time.Duration) (energy, sum *gpu.Millijoules) {
	if power >= 0 {
		sum = new(m.integral.Add(uint32(min(power*1000, math.MaxUint32)), at.Boot, tick))
	}
	m.choose(counter.ok, power >= 0, definite)
	switch {
	case m.kind == gpu.EnergyCounter && counter.ok:
		energy = new(millijoules(counter.n))
	case m.kind == gpu.EnergyPower:
		energy = sum
	}
	return energy, sum
}

func (m *meter) choose(counter, power, definite bool) {
	if counter {
		m.missed, m.found = 0, m.found+1
		if m.kind == gpu.EnergyNone || m.found >= patience {
			m.kind = gpu.EnergyCounter
		}
		return
	}
	m.found = 0
	m.missed++
	unread := m.kind == gpu.EnergyNone && !definite // the first reads may fail
	switch {
	case m.missed < patience && (unread || m.kind == gpu.EnergyCounter):
	case power:
		m.kind = gpu.EnergyPower
	case m.kind == gpu.EnergyCounter && !definite: // keep the source, because no source can be read now
	case m.kind == gpu.EnergyCounter:
		m.kind = gpu.EnergyNone
	}
}
