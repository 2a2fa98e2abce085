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
		if h.Kind != gpu.OwnerPod {
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

// containers renders the accounts of a GPU's book.
func (p *page) containers(g *gpu.GPU) {
	showProcesses := p.opts.Process.shows(g)
	live := liveProcesses(g)
	for i := range g.Book.Accounts {
		a := &g.Book.Accounts[i]
		if a.Kind != gpu.OwnerPod {
			continue
		}
		who := p.account(g.UUID, a.AccountKey)
		if !p.first(containerEnergy, who) {
			continue
		}
		p.container(a, who)
		if showProcesses {
			p.processes(a, who, live)
		}
	}
}

// container renders one account, with all methods.
func (p *page) container(a *gpu.Account, who *labelSet) {
	for m, e := range a.Energy {
		p.counter(containerEnergy, e.Joules(), a.Opened, p.with(who, "method", gpu.Method(m).String()))
	}
	p.counter(containerIdleEnergy, a.Idle.Joules(), a.Opened, who)
	p.counter(containerAllocated, a.Allocated.Seconds(), a.Opened, who)
	p.counter(containerActive, a.Active.Seconds(), a.Opened, who)
}
