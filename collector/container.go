package collector

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
)

// account returns the labels that key the series of a pod's container on a GPU.
func (p *page) account(uuid string, k gpu.AccountKey) *labelSet {
	return p.labels("UUID", uuid, "GPU_I_ID", k.GPUInstance, "namespace", k.Scope, "pod", k.Name, "pod_uid", k.UID, "container", k.Part)
}

// holders renders the owners that hold or use the GPU now. A container has one row per GPU or
// MIG instance, even with two kinds of allocation, because joins need exactly one.
func (p *page) holders(g *gpu.GPU, uuid *labelSet) {
	for _, h := range g.Holders {
		switch h.Kind {
		case gpu.OwnerUnit:
			p.unitHolder(g, h)
			continue
		case gpu.OwnerPod:
		default:
			continue
		}
		who := p.account(g.UUID, h.AccountKey)
		if !p.first(containerInfo, who) {
			continue
		}
		p.info(containerInfo, p.with(who, "resource", h.Resource, "claim", h.Claim, "sharing", string(h.Sharing)))
		p.gauge(containerReplicas, float64(h.Replicas), who)
	}
	optional(p, gpuStrays, g.Strays, uuid)
	optional(p, gpuUnused, g.Unused, uuid)
}

// accounts renders the accounts of a GPU's book.
func (p *page) accounts(g *gpu.GPU) {
	showProcesses := p.opts.Process.shows(g)
	live := liveProcesses(g)
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		shown, who := ofPod, p.who(g.UUID, a)
		if a.Kind == gpu.OwnerUnit {
			shown = ofUnits
		}
		if who == nil || !p.first(shown.energy, who) {
			continue
		}
		p.accountOf(a, who, shown)
		if a.Kind == gpu.OwnerPod {
			p.jobs(a, who)
		}
		if showProcesses {
			p.processes(a, who, live, shown.process)
		}
	}
}

// who returns the labels that key the series of an account, nil for kinds of owners without series.
func (p *page) who(uuid string, a *gpu.Account) *labelSet {
	switch a.Kind {
	case gpu.OwnerPod:
		return p.account(uuid, a.AccountKey)
	case gpu.OwnerUnit:
		return p.unit(uuid, a.AccountKey)
	}
	return nil
}

// accountMetrics are the metrics of the accounts of a kind of owner.
type accountMetrics struct {
	energy, idle, allocated, active metricID
	process                         processMetrics
}

var (
	ofPod = accountMetrics{
		containerEnergy, containerIdleEnergy, containerAllocated, containerActive,
		processMetrics{processInfo, processEnergy, processActive, processSM, processMemory, processMemoryUsed, processStart},
	}
	ofUnits = accountMetrics{
		unitEnergy, unitIdleEnergy, unitAllocated, unitActive,
		processMetrics{unitProcessInfo, unitProcessEnergy, unitProcessActive, unitProcessSM, unitProcessMemory, unitProcessMemoryUsed, unitProcessStart},
	}
)

// accountOf renders one account, with all methods.
func (p *page) accountOf(a *gpu.Account, who *labelSet, shown accountMetrics) {
	for m, e := range a.Energy {
		p.counter(shown.energy, e.Joules(), a.Opened, p.with(who, "method", gpu.Method(m).String()))
	}
	p.counter(shown.idle, a.Idle.Joules(), a.Opened, who)
	p.counter(shown.allocated, a.Allocated.Seconds(), a.Opened, who)
	p.counter(shown.active, a.Active.Seconds(), a.Opened, who)
}
