package collector

import (
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// folded is the value of the label pid in series that cover several processes of an owner.
const folded = "other"

func liveProcesses(g *gpu.GPU) map[gpu.ProcessID]*gpu.LiveProcess {
	live := make(map[gpu.ProcessID]*gpu.LiveProcess, len(g.Processes))
	for i := range g.Processes {
		live[g.Processes[i].ID] = &g.Processes[i]
	}
	return live
}

type processMetrics struct{ info, energy, active, sm, memory, memoryUsed, start metricID }

func (p *page) processes(a *gpu.Account, who *labelSet, live map[gpu.ProcessID]*gpu.LiveProcess, shown processMetrics) {
	for i := range a.Processes {
		q := &a.Processes[i]
		pid := folded
		if !q.Folded {
			pid = strconv.FormatUint(uint64(q.PID), 10)
		}
		which := p.with(who, "pid", pid, "process", q.Name)
		if !p.first(shown.energy, which) {
			continue
		}
		for m, e := range q.Energy {
			p.counter(shown.energy, e.Joules(), q.Opened, p.with(which, "method", gpu.Method(m).String()))
		}
		if !q.Folded {
			p.process(q, which, live[q.ProcessID], shown)
		}
	}
}

// live is nil after the process left the GPU. After that, the counters of the process remain on the page for the
// retention time, and its gauges are absent.
func (p *page) process(q *gpu.ProcessAccount, which *labelSet, live *gpu.LiveProcess, shown processMetrics) {
	p.info(shown.info, p.with(which, "container_id", q.ContainerID))
	p.moment(shown.start, q.StartTime, which)
	p.flag(shown.active, live != nil, which)
	if live == nil {
		return
	}
	optional(p, shown.sm, live.SM, which)
	optional(p, shown.memory, live.Memory, which)
	optional(p, shown.memoryUsed, live.MemoryUsed, which)
}
