package collector

import (
	"github.com/gpuledger/gpuledger/internal/gpu"
)

func (p *page) account(uuid string, k gpu.AccountKey) *labelSet {
	return p.labels("UUID", uuid, "GPU_I_ID", k.GPUInstance, "namespace", k.Scope, "pod", k.Name, "pod_uid", k.UID, "container", k.Part)
}

// holders renders the owners that hold or use the GPU now. A container has one series per GPU or MIG instance, because
// joins in queries need exactly one series. A container with two kinds of allocation also has only one series.
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
