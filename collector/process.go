package collector

import (
	"strconv"

	"github.com/gpuledger/gpuledger/internal/gpu"
)

// folded is the pid label of the processes of a container beyond the cap.
const folded = "other"

func liveProcesses(g *gpu.GPU) map[gpu.ProcessID]*gpu.LiveProcess {
	live := make(map[gpu.ProcessID]*gpu.LiveProcess, len(g.Processes))
	for i := range g.Processes {
		live[g.Processes[i].ID] = &g.Processes[i]
	}
	return live
}

func (p *page) processes(a *gpu.Account, who *labelSet, live map[gpu.ProcessID]*gpu.LiveProcess) {
	for i := range a.Processes {
		q := &a.Processes[i]
		pid := folded
		if !q.Folded {
			pid = strconv.FormatUint(uint64(q.PID), 10)
		}
		which := p.with(who, "pid", pid, "process", q.Name)
		if !p.first(processEnergy, which) {
			continue
		}
		p.processEnergy(q, which)
		if !q.Folded {
			p.process(q, which, live[q.ProcessID])
		}
	}
}

func (p *page) processEnergy(q *gpu.ProcessAccount, which *labelSet) {
	for m, e := range q.Energy {
		p.counter(processEnergy, e.Joules(), q.Opened, p.with(which, "method", gpu.Method(m).String()))
	}
}

// process renders a process. live is nil after it left the GPU; its account then remains for
// the retention time, without gauges.
func (p *page) process(q *gpu.ProcessAccount, which *labelSet, live *gpu.LiveProcess) {
	p.info(processInfo, p.with(which, "container_id", q.ContainerID))
	p.moment(processStart, q.StartTime, which)
	p.flag(processActive, live != nil, which)
	if live == nil {
		return
	}
	optional(p, processSM, live.SM, which)
	optional(p, processMemory, live.Memory, which)
	optional(p, processMemoryUsed, live.MemoryUsed, which)
}
