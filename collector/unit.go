package collector

import (
	"maps"
	"slices"
	"strings"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

func (p *page) unit(uuid string, k gpu.AccountKey) *labelSet {
	return p.labels("UUID", uuid, "GPU_I_ID", k.GPUInstance, "manager", k.Scope, "unit", k.Name)
}

func (p *page) unitHolder(g *gpu.GPU, h gpu.Holder) {
	if who := p.unit(g.UUID, h.AccountKey); p.first(unitGPUInfo, who) {
		p.info(unitGPUInfo, p.with(who, "sharing", string(h.Sharing)))
	}
}

// jobs renders the energy that is charged to the jobs in a pod's container.
func (p *page) jobs(a *gpu.Account, who *labelSet) {
	for i := range a.Units {
		u := &a.Units[i]
		if l := p.with(who, "manager", u.Manager, "unit", u.Name); p.first(containerUnitEnergy, l) {
			p.counter(containerUnitEnergy, u.Energy.Joules(), u.Opened, l)
		}
	}
}

func (p *page) unitInfos(s *gpu.Snapshot) {
	shown := make(map[gpu.Unit]bool)
	for i := range s.GPUs {
		g := &s.GPUs[i]
		for _, h := range g.Holders {
			shown[h.Unit()] = true
		}
		if g.Book == nil {
			continue
		}
		for k := range g.Book.Accounts {
			a := &g.Book.Accounts[k]
			shown[a.Unit()] = true
			for _, u := range a.Units {
				shown[u.Unit] = true
			}
		}
	}
	delete(shown, gpu.Unit{})
	for _, u := range slices.SortedFunc(maps.Keys(shown), compareUnits) {
		i := s.Units[u]
		who := p.labels("manager", u.Manager, "unit", u.Name)
		if p.first(unitInfo, who) {
			p.info(unitInfo, p.with(who,
				"sluid", i.SLUID, "user", i.User, "uid", i.UID, "account", i.Account, "partition", i.Partition,
				"cluster_name", i.Cluster, "job_name", i.JobName, "array_element", i.ArrayElement, "container_id", i.ContainerID, "image", i.Image, "project", i.Project,
			))
		}
	}
}

func compareUnits(a, b gpu.Unit) int {
	if a.Manager != b.Manager {
		return strings.Compare(a.Manager, b.Manager)
	}
	return strings.Compare(a.Name, b.Name)
}
