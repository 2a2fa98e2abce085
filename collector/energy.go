package collector

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func (p *page) energy(g *gpu.GPU, uuid *labelSet) {
	b := g.Book
	if g.EnergySource != gpu.EnergyNone {
		p.info(gpuEnergySource, p.with(uuid, "source", string(g.EnergySource), "scope", string(g.EnergyScope)))
	}
	p.counter(gpuEnergy, b.Energy.Joules(), b.Opened, uuid)
	for r, e := range b.Unattributed {
		p.counter(unattributedEnergy, e.Joules(), b.Opened, p.with(uuid, "reason", gpu.Reason(r).String()))
	}
	p.counter(retiredEnergy, b.Retired.Joules(), b.Opened, uuid)
	p.counter(energyResets, float64(b.Resets), b.Opened, uuid)
	p.counter(readingsRejected, float64(b.Rejected), b.Opened, uuid)
	p.counter(uncountedEnergy, b.Uncounted.Joules(), b.Opened, uuid)
	p.counter(estimatedEnergy, b.Estimated.Joules(), b.Opened, uuid)
	p.throttled(b.Throttled, b.Opened, throttledEnergy, throttledSeconds, uuid)
	if b.Floor.Power > 0 {
		p.gauge(gpuIdlePower, float64(b.Floor.Power), uuid)
		p.info(gpuIdlePowerInfo, p.with(uuid, "source", b.Floor.Source.String()))
	}
	if b.Unsampled != nil {
		p.counter(unsampledSeconds, b.Unsampled.Seconds(), b.Opened, uuid)
	}
}

func (p *page) throttled(t gpu.ByThrottle, since time.Time, energy, seconds metricID, key *labelSet) {
	for cause, part := range t {
		if part.Time > 0 {
			l := p.with(key, "throttle", gpu.Throttle(cause).String())
			p.counter(energy, part.Energy.Joules(), since, l)
			p.counter(seconds, part.Time.Seconds(), since, l)
		}
	}
}
