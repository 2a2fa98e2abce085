package collector

import (
	"time"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

type accountMetrics struct {
	labels                                func(p *page, uuid string, k gpu.AccountKey) *labelSet
	energy, idle, allocated, active, busy metricID
	throttledEnergy, throttledSeconds     metricID
	profiled                              profiledMetrics
	process                               processMetrics
}

var accountsOf = map[gpu.OwnerKind]accountMetrics{
	gpu.OwnerPod: {
		labels: (*page).account,
		energy: containerEnergy, idle: containerIdleEnergy, allocated: containerAllocated, active: containerActive, busy: containerBusy,
		throttledEnergy: containerThrottledEnergy, throttledSeconds: containerThrottledSeconds,
		profiled: profiledMetrics{containerProfiled, containerTensor, containerDRAM},
		process: processMetrics{
			info: processInfo, energy: processEnergy, active: processActive, sm: processSM, memory: processMemory,
			memoryUsed: processMemoryUsed, start: processStart,
		},
	},
	gpu.OwnerUnit: {
		labels: (*page).unit,
		energy: unitEnergy, idle: unitIdleEnergy, allocated: unitAllocated, active: unitActive, busy: unitBusy,
		throttledEnergy: unitThrottledEnergy, throttledSeconds: unitThrottledSeconds,
		profiled: profiledMetrics{unitProfiled, unitTensor, unitDRAM},
		process: processMetrics{
			info: unitProcessInfo, energy: unitProcessEnergy, active: unitProcessActive, sm: unitProcessSM, memory: unitProcessMemory,
			memoryUsed: unitProcessMemoryUsed, start: unitProcessStart,
		},
	},
}

func (p *page) accounts(g *gpu.GPU) {
	showProcesses := p.opts.Process.shows(g)
	live := liveProcesses(g)
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		metrics, ok := accountsOf[a.Kind]
		if !ok {
			continue
		}
		key := metrics.labels(p, g.UUID, a.AccountKey)
		if !p.first(metrics.energy, key) {
			continue
		}
		p.charged(a, key, &metrics)
		if a.Kind == gpu.OwnerPod {
			p.jobs(a, key)
		}
		if showProcesses {
			p.processes(a, key, live, metrics.process)
		}
	}
}

func (p *page) charged(a *gpu.Account, key *labelSet, metrics *accountMetrics) {
	for m, e := range a.Energy {
		p.counter(metrics.energy, e.Joules(), a.Opened, p.with(key, "method", gpu.Method(m).String()))
	}
	p.counter(metrics.idle, a.Idle.Joules(), a.Opened, key)
	p.counter(metrics.allocated, a.Allocated.Seconds(), a.Opened, key)
	p.counter(metrics.active, a.Active.Seconds(), a.Opened, key)
	p.counter(metrics.busy, a.Busy.Seconds(), a.Opened, key)
	p.throttled(a.Throttled, a.Opened, metrics.throttledEnergy, metrics.throttledSeconds, key)
	if p.opts.Profiling {
		p.profiled(a.Profiled, a.Opened, metrics.profiled, key)
	}
}

type profiledMetrics struct{ time, tensor, dram metricID }

func (p *page) profiled(work gpu.Profiled, opened time.Time, metrics profiledMetrics, key *labelSet) {
	if work.Time == 0 {
		return
	}
	p.counter(metrics.time, work.Time.Seconds(), opened, key)
	p.counter(metrics.tensor, work.Tensor.Seconds(), opened, key)
	p.counter(metrics.dram, work.DRAM.Seconds(), opened, key)
}
